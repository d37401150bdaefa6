"""The conditions of a run, what both sides have in common of them, and what differs, the most decisive first. Pure.

For each row, the facts of both sides' processes are compared. A fact that differs between processes of one side has all
of its values. Facts that neither side knows are left out; those that only one side knows may be equal and come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Callable, Optional

import msgspec

from modelzoo.comparison.model import Row
from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.records.evidence import Evidence
from modelzoo.records.libraries import Libraries, Library
from modelzoo.records.machine import THREAD_VARIABLES, Machine
from modelzoo.records.run import Result, RunReport
from modelzoo.results.refusals import SideSetting

Facts = Iterable[tuple[str, Optional[str]]]
"""Names with their values; ``None`` if the system does not report it. A name may occur several times."""
NONE, NOT_SET, NOT_LOADED = "none", "not set", "not loaded"


class FactGroup(msgspec.Struct, frozen=True):
    """Facts of one kind.

    Attributes:
        read: returns them; ``None`` if they were not recorded.
        absent: what it means that a name is not among them although they were recorded; ``None``: it is not known.
        by_name: whether they are sorted by name; otherwise they stay in the order in which they are read.
    """

    read: Callable[[RunReport, Result], Optional[Facts]]
    absent: Optional[str] = None
    by_name: bool = False


def _processor(report: RunReport, result: Result) -> Facts:
    machine = report.provenance.machine
    yield "emulator", machine.emulator or NONE
    yield "CPU", machine.cpu + (f" ({machine.product})" if machine.product else "")
    yield "architecture", machine.architecture
    yield "vector extensions", ", ".join(machine.features) or "none that affects the kernels"
    yield "SVE", _sve(machine)
    yield "cores", _cores(machine)
    yield "threads per core", str(machine.threads_per_core)
    yield "vCPUs per physical core", _text(machine.vcpus_per_core) or (None if machine.hypervisor else NONE)
    yield "sockets", _text(machine.sockets)
    yield "NUMA nodes", _text(machine.numa_nodes)


def _limits(report: RunReport, result: Result) -> Facts:
    machine = report.provenance.machine
    yield "highest frequency", None if machine.max_mhz is None else f"{machine.max_mhz / 1000:.2f} GHz"
    for cache in machine.caches:
        yield f"{cache.name} cache", f"{cache.instances} × {cache.bytes / 2**10:g} KiB"
    yield "memory", _gib(machine.memory)
    yield "usable memory", _gib(machine.memory_limit)


def _platform(report: RunReport, result: Result) -> Facts:
    machine = report.provenance.machine
    yield "hypervisor", machine.hypervisor or NONE
    yield "cloud", machine.cloud
    yield "instance type", machine.instance_type


def _accelerator(report: RunReport, result: Result) -> Facts:
    used = report.accelerator
    if used is None:
        return
    device = used.device
    yield "accelerator", device.name
    yield "compute capability", device.capability
    yield "memory of the accelerator", _gib(device.memory)
    yield "driver of the accelerator", device.driver
    yield "libraries of the accelerator", device.runtime
    yield "interface to the accelerator", device.interface
    yield "locked clock", NONE if used.locked_mhz is None else f"{used.locked_mhz} MHz"


def _system(report: RunReport, result: Result) -> Facts:
    machine = report.provenance.machine
    yield "kernel", f"{machine.system} {machine.kernel}"
    yield "governor", machine.governor
    yield "huge pages", machine.huge_pages
    yield "malloc", machine.allocator
    yield "C library", machine.libc


def _engine(report: RunReport, result: Result) -> Facts:
    versions = _versions(report) or {}
    own = versions.get(report.provenance.engine) if report.provenance.engine != "torch" else None
    yield "engine", f"{report.provenance.engine} {own}" if own else report.provenance.engine
    if versions:
        yield "torch", versions.get("torch")
    if report.prepared.export is not None:
        conversion = report.prepared.export.conversion
        opset = f", opset {conversion.opset}" if conversion.opset else ""
        yield "exporter", f"{conversion.exporter} {conversion.version}{opset}"


def _packages(report: RunReport, result: Result) -> Optional[Facts]:
    """Packages that are not listed may be missing, or were not recorded by an older version of the suite."""
    versions = _versions(report)
    return None if versions is None else ((k, v) for k, v in versions.items() if k not in ("torch", "python"))


def _build(report: RunReport, result: Result) -> Optional[Facts]:
    return (
        None
        if report.provenance.libraries is None
        else _of_build(report.provenance.libraries, report.observed.evidence)
    )


def _of_build(libraries: Libraries, evidence: Optional[Evidence]) -> Facts:
    """How torch was built, and what its libraries selected on this machine."""
    build = libraries.build
    yield "BLAS", build.blas
    yield "oneDNN", build.onednn or _absent(libraries.onednn)
    yield "oneDNN instruction set", evidence.onednn_isa or None if evidence else None
    yield "ATen kernels", build.capability
    yield "MKL", build.mkl or _absent(libraries.mkl)
    yield "Arm Compute Library", "used" if libraries.acl is not None else "not used"
    yield "OpenMP of the build", build.openmp
    yield "compiler", build.compiler
    yield "build type", build.build_type
    yield "compiler flags", " ".join(build.flags) or None


def _build_settings(report: RunReport, result: Result) -> Optional[Facts]:
    """What torch was built with; the other settings say again what the versions say."""
    if report.provenance.libraries is None:
        return None
    settings = report.provenance.libraries.build.settings
    return ((f"torch's {name}", value) for name, value in settings.items() if name.startswith("USE_"))


def _loaded(report: RunReport, result: Result) -> Optional[Facts]:
    return None if report.provenance.libraries is None else map(_library, report.provenance.libraries.loaded)


def _library(library: Library) -> tuple[str, str]:
    """One library; the size of its pool is left out, because it follows the threads."""
    parts = (library.version, library.architecture, library.threading)
    text = " ".join(part for part in parts if part) or PurePath(library.file).name
    return f"{library.kind} of {library.owner}", text


def _surroundings(report: RunReport, result: Result) -> Facts:
    yield "image", report.provenance.machine.image or NONE
    yield "container", report.provenance.machine.container or NONE
    yield "Python", (_versions(report) or {}).get("python", report.provenance.machine.python)


def _cpus(report: RunReport, result: Result) -> Facts:
    limits = report.provenance.machine.threads
    yield "threads", str(report.setting.threads)
    yield "number of CPUs allowed", str(limits.affinity)
    yield "CPUs allowed", limits.cpus_allowed
    yield "CPU quota", NONE if limits.quota is None else f"{limits.quota:g} CPUs"
    yield "niceness", _text(report.provenance.machine.niceness)


def _variables(report: RunReport, result: Result) -> Facts:
    """The variables of the process. One that the suite removed is not set; one that names the threads is no news."""
    found = {**report.provenance.machine.environment, **report.provenance.environment.applied}
    for name, value in found.items():
        follows_threads = name in THREAD_VARIABLES and value == str(report.setting.threads)
        if not name.startswith("MODELZOO_") and not follows_threads:
            yield f"variable {name}", value


def _switches(report: RunReport, result: Result) -> Facts:
    for switch in report.switches:
        name, _, value = switch.partition("=")
        yield name, value or "set"


def _suite(report: RunReport, result: Result) -> Facts:
    dirty = "+" if result.commit and result.commit.endswith("+") else ""
    yield "modelzoo", result.version
    yield "commit of modelzoo", f"{result.commit[:DIGEST_DIGITS]}{dirty}" if result.commit else None


def _work(report: RunReport, result: Result) -> Facts:
    setting = report.setting
    yield "device", setting.device
    yield "batch", str(setting.batch)
    yield "bf16 method", setting.bf16_method or NONE
    yield "int8 recipe", setting.recipe or NONE
    yield "weights", f"{report.prepared.weights.name} ({report.prepared.weights.sha256[:DIGEST_DIGITS]})"
    yield "inputs", report.inputs_digest and report.inputs_digest[:DIGEST_DIGITS]
    if report.calibration_digest is not None:
        yield "calibration", report.calibration_digest[:DIGEST_DIGITS]
    yield "workload file", report.provenance.digest and report.provenance.digest[:DIGEST_DIGITS]


def _kernels(report: RunReport, result: Result) -> Optional[Facts]:
    if report.observed.evidence is None:
        return None
    return (
        (f"kernels of {use.operator_class}", f"{use.implementation} ({use.precision})")
        for use in report.observed.evidence.operators
    )


IMPORTANCE: tuple[FactGroup, ...] = (
    FactGroup(_processor),
    FactGroup(_limits),
    FactGroup(_accelerator, NONE),
    FactGroup(_platform),
    FactGroup(_system),
    FactGroup(_engine),
    FactGroup(_build),
    FactGroup(_build_settings, NOT_SET, by_name=True),
    FactGroup(_packages, by_name=True),
    FactGroup(_loaded, NOT_LOADED, by_name=True),
    FactGroup(_surroundings),
    FactGroup(_cpus),
    FactGroup(_variables, NOT_SET, by_name=True),
    FactGroup(_switches, NOT_SET, by_name=True),
    FactGroup(_suite),
    FactGroup(_work),
    FactGroup(_kernels, NONE, by_name=True),
)
"""All conditions, the most decisive first.

The machine comes before the software, because it usually changes the speed more and nothing in the software can make up
for it; what runs on both sides alike unless somebody changed it (suite, weights, inputs) comes after what differs from
installation to installation. Kernels come last: they are a consequence of the others.
"""


def _versions(report: RunReport) -> Optional[dict[str, str]]:
    """Older results have the versions in another place; ``None`` if they were not recorded."""
    return report.provenance.versions or (report.provenance.libraries.versions if report.provenance.libraries else None)


def _absent(is_usable: bool) -> Optional[str]:
    """The version of a library if the build names none: there is none, unless torch can use it all the same."""
    return None if is_usable else NONE


def _cores(machine: Machine) -> str:
    return str(machine.cores) if machine.cores == machine.logical else f"{machine.cores} ({machine.logical} logical)"


def _sve(machine: Machine) -> Optional[str]:
    if machine.sve_bits is not None:
        return f"{machine.sve_bits} bits"
    return None if "sve" in machine.features else NONE


def _gib(size: Optional[int]) -> Optional[str]:
    """In whole GiB: kernels reserve slightly different amounts at each boot."""
    return None if size is None else f"{size / 2**30:.0f} GiB"


def _text(number: Optional[int]) -> Optional[str]:
    return None if number is None else str(number)


Values = Mapping[str, frozenset[str]]
"""All values of the facts of one group, by name."""
Pair = tuple[frozenset[str], frozenset[str]]
"""The baseline's values of a fact, and the other side's."""
_UNKNOWN: frozenset[str] = frozenset()
_NONE = frozenset({NONE})


class Difference(msgspec.Struct, frozen=True):
    """A condition that differs between the sides.

    Attributes:
        name: ``CPU``, ``torch``, ``variable OMP_NUM_THREADS`` ….
        base: the baseline's values, of all its processes; empty if they are not known.
        other: the other side's.
        rows: names of the rows that it concerns; empty if it concerns all.
        is_apart: whether no process of one side has a value of the other.
    """

    name: str
    base: tuple[str, ...]
    other: tuple[str, ...]
    rows: tuple[str, ...] = ()
    is_apart: bool = True


class Conditions(msgspec.Struct, frozen=True):
    """What the sides have in common, by name, and what differs, the most decisive first.

    What is the same on both sides of each row, but not in all rows (weights, for example), is shared without values.
    """

    shared: tuple[tuple[str, tuple[str, ...]], ...]
    differing: tuple[Difference, ...]


class _Compared(msgspec.Struct, frozen=True):
    """The facts of one group in one row; ``None`` if a side did not record them."""

    row: str
    base: Optional[Values]
    other: Optional[Values]


def conditions(rows: Sequence[Row]) -> Conditions:
    """Return what both sides have in common, and what differs.

    Only rows for which both sides have a finished process are considered: of the others, nothing can be said.
    """
    both = [(row.name, _processes(row.base), _processes(row.other)) for row in rows if row.base and row.other]
    found = [(name, base, other) for name, base, other in both if base and other]
    shared: list[tuple[str, tuple[str, ...]]] = []
    differing: list[Difference] = []
    for group in IMPORTANCE:
        compared = [_Compared(name, _values(group, base), _values(group, other)) for name, base, other in found]
        for name in _names(group, compared):
            values = {each.row: _pair(group, name, each) for each in compared}
            known = {row: pair for row, pair in values.items() if any(pair)}
            differences = {row: pair for row, pair in known.items() if pair[0] != pair[1]}
            if differences:
                differing += _differences(name, differences, len(compared))
            elif known:
                alike = {value for value, _ in known.values()}
                shared += [(name, tuple(sorted(alike.pop())) if len(alike) == 1 else ())] if alike != {_NONE} else []
    return Conditions(tuple(shared), tuple(sorted(differing, key=_is_half_known)))


_Process = tuple[RunReport, Result]


def _processes(side: SideSetting) -> list[_Process]:
    return [
        (run.report, result)
        for session, result in zip(side.sessions, side.results)
        for run in session
        if run.report is not None
    ]


def _values(group: FactGroup, processes: Sequence[_Process]) -> Optional[Values]:
    """The values of each fact in all processes; ``None`` if no process recorded this group."""
    found: dict[str, set[str]] = {}
    recorded = [list(facts) for facts in (group.read(*each) for each in processes) if facts is not None]
    for facts in recorded:
        for name, value in facts:
            found.setdefault(name, set()).update([] if value is None else [value])
    if group.absent is not None:
        for names in [{name for name, _ in facts} for facts in recorded]:
            for name in found.keys() - names:
                found[name].add(group.absent)
    return {name: frozenset(values) for name, values in found.items()} if recorded else None


def _names(group: FactGroup, compared: Sequence[_Compared]) -> list[str]:
    names = list(dict.fromkeys(name for each in compared for side in (each.base, each.other) for name in side or ()))
    return sorted(names) if group.by_name else names


def _pair(group: FactGroup, name: str, each: _Compared) -> Pair:
    absent = _UNKNOWN if group.absent is None else frozenset({group.absent})
    base, other = (_UNKNOWN if side is None else side.get(name, absent) for side in (each.base, each.other))
    return base, other


def _is_half_known(difference: Difference) -> bool:
    return not (any(difference.base) and any(difference.other))


def _differences(name: str, values: Mapping[str, Pair], rows: int) -> list[Difference]:
    """One difference for each pair of values, with the rows that it concerns unless that is all of them."""
    by_pair: dict[Pair, list[str]] = {}
    for row, pair in values.items():
        by_pair.setdefault(pair, []).append(row)
    found = []
    for (base, other), concerned in by_pair.items():
        names = () if len(concerned) == rows else tuple(concerned)
        found.append(Difference(name, tuple(sorted(base)), tuple(sorted(other)), names, not base & other))
    return found

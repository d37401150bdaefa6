"""The conditions of a run, what both sides have in common of them, and what differs, the most decisive first. Pure.

The conditions are the fields of what a process recorded of its machine, its software and its setting, except what is
momentary. For each row, those of both sides' processes are compared. A condition that differs between processes of one
side has all of its values. What neither side knows is left out; what only one side knows may be equal and comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import msgspec

from modelzoo.formatting import DIGEST_DIGITS
from modelzoo.frozen import field_names
from modelzoo.records.equipment import Library
from modelzoo.records.evidence import OperatorUse
from modelzoo.records.machine import THREAD_VARIABLES
from modelzoo.records.run import Result, RunReport
from modelzoo.results.refusals import SideSetting
from modelzoo.setting import value_text

Values = frozenset[str]
Pair = tuple[Values, Values]
"""The baseline's values of a condition, and the other side's; empty if they are not known."""
Facts = Iterable[tuple[str, Any]]
"""Names with their values; ``None`` if the system does not report it. A name may occur several times."""
NONE, NOT_SET, NOT_LOADED = "none", "not set", "not loaded"
_SAYS_NOTHING = frozenset({NONE, "off", "default"})
"""What need not be said if it is so on both sides."""
_NONE_IF_NOT_REPORTED = frozenset({"emulator", "hypervisor", "image", "container", "CPU quota", "locked clock"})
_NAMES = {"cpu": "CPU", "libc": "C library", "sve_bits": "SVE bits", "numa_nodes": "NUMA nodes", "quota": "CPU quota"}


Group = tuple[Mapping[str, Values], Values]
"""Conditions of one kind in one process, by name, empty if a value is not known; and what it means that a name is not
among them, empty if that is not known."""


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


def conditions(rows: Mapping[str, tuple[SideSetting, SideSetting]]) -> Conditions:
    """Return what both sides have in common, and what differs.

    Only rows for which both sides have a finished process are considered: of the others, nothing can be said.

    Args:
        rows: the baseline and the other side of each, by its name.
    """
    both = {name: (_processes(base), _processes(other)) for name, (base, other) in rows.items()}
    found = {name: sides for name, sides in both.items() if all(sides)}
    processes = [process for sides in found.values() for side in sides for process in side]
    shared: list[tuple[str, tuple[str, ...]]] = []
    differing: list[Difference] = []
    for place in range(len(processes[0]) if processes else 0):
        recorded = [group for process in processes if (group := process[place]) is not None]
        for name in dict.fromkeys(name for values, _ in recorded for name in values):
            pairs = {
                row: (_values(base, place, name), _values(other, place, name)) for row, (base, other) in found.items()
            }
            known = {row: pair for row, pair in pairs.items() if any(pair)}
            differences = {row: pair for row, pair in known.items() if pair[0] != pair[1]}
            if differences:
                differing += _differences(name, differences, len(found))
            elif len(alike := {value for value, _ in known.values()}) > 1:
                shared.append((name, ()))
            elif alike and not (value := alike.pop()) <= _SAYS_NOTHING:
                shared.append((name, tuple(sorted(value))))
    return Conditions(tuple(shared), tuple(sorted(differing, key=lambda each: not (each.base and each.other))))


def _processes(side: SideSetting) -> list[list[Group | None]]:
    return [
        groups(run.report, result)
        for session, result in zip(side.sessions, side.results)
        for run in session
        if run.report is not None
    ]


def _values(processes: Sequence[Sequence[Group | None]], place: int, name: str) -> Values:
    """The values of a condition in all processes that recorded conditions of this kind."""
    return frozenset().union(
        *(found[0].get(name, found[1]) for each in processes if (found := each[place]) is not None)
    )


def _differences(name: str, values: Mapping[str, Pair], rows: int) -> list[Difference]:
    """One difference for each pair of values, with the rows that it concerns unless that is all of them."""
    by_pair: dict[Pair, list[str]] = {}
    for row, pair in values.items():
        by_pair.setdefault(pair, []).append(row)
    return [
        Difference(
            name,
            tuple(sorted(base)),
            tuple(sorted(other)),
            () if len(concerned) == rows else tuple(concerned),
            not base & other,
        )
        for (base, other), concerned in by_pair.items()
    ]


def groups(report: RunReport, result: Result) -> list[Group | None]:
    """Return the conditions of a process, the most decisive first; ``None`` stands for a group that was not recorded.

    The machine comes before the software, because it usually changes the speed more and nothing in the software can
    make up for it; what runs on both sides alike unless somebody changed it (suite, weights, inputs) comes after what
    differs from installation to installation. Kernels come last: they are a consequence of the others.
    """
    provenance, setting, used = report.provenance, report.setting, report.accelerator
    machine, libraries, evidence = provenance.machine, provenance.libraries, report.observed.evidence
    versions = provenance.versions or (libraries.versions if libraries is not None else None)
    chosen = dict(_fields(setting, "engine weights input python image options seed bf16_method recipe"))
    chosen |= {"precision": "=".join(filter(None, (setting.precision, setting.method))), **setting.options}
    # A variable that the suite removed is not set; one that names the threads is no news.
    variables = {**machine.environment, **provenance.environment.applied}
    follows = {name for name in THREAD_VARIABLES if variables.get(name) == str(setting.threads)}
    weights, export, commit = report.prepared.weights, report.prepared.export, result.commit
    digests = {"inputs": report.inputs_digest, "calibration": report.calibration_digest}
    digests["workload file"] = provenance.digest
    suite_and_work = {
        "modelzoo": result.version,
        "commit of modelzoo": commit and commit[:DIGEST_DIGITS] + ("+" if commit.endswith("+") else ""),
        "weights": f"{weights.name} ({weights.sha256[:DIGEST_DIGITS]})",
        **{name: digest and digest[:DIGEST_DIGITS] for name, digest in digests.items()},
    }
    build = None if libraries is None else libraries.build
    # torch's other settings say again what the versions say.
    uses = None if build is None else [(f"torch's {x}", build.settings[x]) for x in build.settings if x[:4] == "USE_"]
    found: list[tuple[Facts | None, str | None]] = [
        (_fields(machine, "mhz has_bf16 environment numa_allowed nodes caches threads image_id"), None),
        (((f"{each.name} cache", f"{each.instances} × {each.bytes / 2**10:g} KiB") for each in machine.caches), None),
        (_fields(machine.threads, "count physical_cores"), None),
        ([*_fields(used.device, "index", "accelerator "), ("locked clock", used.locked_mhz)] if used else (), NONE),
        ([("engine", provenance.engine), *(_fields(export.conversion, "", "exporter ") if export else ())], None),
        (((x, versions[x]) for x in versions if x != "python") if versions else None, None),
        ([*_fields(build, "settings", "torch's "), ("backends", libraries.backends)] if libraries else None, None),
        (uses, NOT_SET),
        (map(_library, libraries.loaded) if libraries else None, NOT_LOADED),
        (((name, value_text(value)) for name, value in chosen.items()), NONE),
        (((f"variable {x}", variables[x]) for x in variables if x not in follows and x[:9] != "MODELZOO_"), NOT_SET),
        (((name, value or "set") for name, _, value in (each.partition("=") for each in report.switches)), NOT_SET),
        (suite_and_work.items(), None),
        ([("oneDNN instruction set", evidence.onednn_isa)] if evidence else None, None),
        (map(_kernel, evidence.operators) if evidence else None, NONE),
    ]
    groups: list[Group | None] = []
    for facts, absent in found:
        values: dict[str, Values] = {}
        for name, value in facts or ():
            text = _text(name, value)
            values[name] = values.get(name, frozenset()) | ({text} if text else set())
        groups.append(None if facts is None else (values, frozenset(filter(None, [absent]))))
    return groups


def _fields(record: Any, left_out: str, prefix: str = "") -> list[tuple[str, Any]]:
    """The fields of a record, by what they are called, except those ``left_out``."""
    names = [name for name in field_names(record) if name not in left_out.split()]
    return [(prefix + _NAMES.get(name, name.replace("_", " ")), getattr(record, name)) for name in names]


def _text(name: str, value: Any) -> str | None:
    """A value as text; ``None`` if it is not known."""
    if value is None or value == ():
        return NONE if value == () or name in _NONE_IF_NOT_REPORTED else None
    if name.endswith("memory") or name == "memory limit":
        return f"{value / 2**30:.0f} GiB"  # kernels reserve slightly different amounts at each boot
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else value_text(value)


def _library(library: Library) -> tuple[str, str]:
    """One library; the size of its pool is left out, because it follows the threads."""
    parts = (library.version, library.architecture, library.threading)
    text = " ".join(part for part in parts if part) or PurePath(library.file).name
    return f"{library.kind} of {library.owner}", text


def _kernel(use: OperatorUse) -> tuple[str, str]:
    return f"kernels of {use.operator_class}", f"{use.implementation} ({use.precision})"

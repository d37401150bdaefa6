"""The machine: what ``modelzoo doctor`` finds, and under which circumstances a result was measured there. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from statistics import median

from modelzoo.document import Block, Column, Command, Details, Notices, Rows, Section, Table, lines, named
from modelzoo.formatting import DIGEST_DIGITS, MISSING, counted, number, percent, seconds, share
from modelzoo.records.equipment import Libraries
from modelzoo.records.machine import Machine
from modelzoo.records.profile import Ceilings, CeilingSeries, DoctorReport
from modelzoo.records.race import Throughput
from modelzoo.records.run import EnvironmentChanges, Result, Run, RunReport
from modelzoo.records.serving import Load
from modelzoo.records.timing import StopReason
from modelzoo.results.summary import SummaryRow
from modelzoo.views.details import accelerator_text, lacking
from modelzoo.views.differences import VERIFICATION, by_workload, full_names


def document(report: DoctorReport) -> list[Block]:
    """Return the machine, its peaks, how it scales over threads, and the warnings."""
    usage = report.usage
    other = "unknown" if usage.other_cores is None else f"{usage.other_cores:.2f} cores"
    steal = "" if usage.steal_percent is None else f", {usage.steal_percent:.1f} % stolen"
    load = ("other load", f"{other}{steal} in {usage.seconds:.0f} s")
    rows = [*machine_rows(report.machine), *library_rows(report.libraries), load]
    found: list[Block] = [Table("Machine", [Column("", cells) for cells in zip(*rows)])]
    if report.ceilings is None:
        found.append(lines("no peaks: nothing is timed under an emulator"))
    else:
        notes = _ceiling_notes(report.ceilings, report.ceilings_kept)
        found.append(Section("Peaks", (_ceilings(report.ceilings), lines(*notes))))
    there = report.accelerator
    if there is not None:
        origin = f"({_origin(there.ceilings, there.ceilings_kept)})"
        peaks = _ceilings(there.ceilings, on_device=True)
        found.append(Section(accelerator_text(there.device), (lines(*lacking(there.device), origin), peaks)))
    good = lines("found nothing that would distort a result")
    return [*found, Notices.of(report.warnings) if report.warnings else good]


def progress_text(series: CeilingSeries) -> str:
    """Say what is being measured."""
    what = "memory copy" if series.operator is None else f"{series.precision} {series.operator}"
    where = f" on {series.device}" if series.device else ""
    threads = f", {counted(series.threads, 'thread')}" if series.threads else ""
    return f"measuring: {what}{where}{threads} …"


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Return name and value of each fact that is shown."""
    smt = f", {machine.threads_per_core} threads per core" if machine.threads_per_core > 1 else ""
    cores = f"{machine.cores}, {counted(machine.sockets, 'socket')}, {counted(machine.numa_nodes, 'NUMA node')}{smt}"
    clock = _joined(
        f"{machine.mhz / 1000:.2f} GHz now" if machine.mhz else None,
        f"{machine.max_mhz / 1000:.2f} GHz at most" if machine.max_mhz else None,
        f"governor {machine.governor}" if machine.governor else None,
    )
    cloud = f" ({machine.instance_type or machine.cloud})" if machine.cloud else ""
    surroundings = _joined(
        f"{machine.hypervisor} virtual machine{cloud}" if machine.hypervisor else None,
        f"{machine.container} container" if machine.container else None,
        f"emulated by {machine.emulator}" if machine.emulator else None,
    )
    caches = [f"{cache.instances} × {cache.name} {_binary_size(cache.bytes)}" for cache in machine.caches]
    threads = machine.threads
    # What decides their default number, if a stored result has it.
    limit = "unknown" if threads.quota is None else f"the control group's quota of {threads.quota:g} CPUs"
    limit = {threads.affinity: "CPU affinity", threads.physical_cores: "physical cores"}.get(threads.count, limit)
    sve = f", {machine.sve_bits}-bit SVE" if machine.sve_bits else ""
    rows = [
        ("CPU", machine.cpu + (f" ({machine.product})" if machine.product else "")),
        ("features", (", ".join(machine.features) or "none that affects the kernels") + sve),
        ("cores", cores),
        ("threads", f"{threads.count} by default (limit: {limit})"),
        ("caches", ", ".join(caches) or "unknown"),
        ("memory", f"{_binary_size(machine.memory)}, {_binary_size(machine.memory_limit)} usable"),
        ("clock", clock or "unknown"),
        ("huge pages", machine.huge_pages or "unknown"),
        ("malloc", machine.allocator or "unknown"),
        ("runs in", surroundings or f"bare metal{cloud}"),
        ("system", _joined(f"{machine.system} {machine.kernel}", machine.libc, f"Python {machine.python}")),
    ]
    if machine.image:
        rows.append(("image", machine.image))
    if machine.environment:
        rows.append(("variables", "\n".join(f"{k}={v}" for k, v in machine.environment.items())))
    return rows


def _joined(*parts: str | None, by: str = ", ") -> str:
    """What is known of these."""
    return by.join(filter(None, parts))


def library_rows(libraries: Libraries) -> list[tuple[str, str]]:
    """Return name and value of each fact about the libraries."""
    packages = (f"{name} {version}" for name, version in libraries.versions.items() if name != "python")
    loaded = (
        _joined(f"{each.owner}:", each.kind, each.version, each.architecture, f"× {each.threads}", by=" ")
        for each in libraries.loaded
    )
    rows = [
        ("build", libraries.build_line),
        ("packages", ", ".join(packages)),
        ("backends", ", ".join(libraries.backends) or "ATen's own kernels only"),
        ("loaded", "\n".join(loaded) or "no library that can be recognized"),
    ]
    acl = libraries.acl
    if acl is not None and acl.file is None:
        rows.append(("ACL", "torch.backends.mkldnn.is_acl_available()"))
    elif acl is not None:
        rows.append(("ACL", f"{acl.file} is loaded" if acl.is_loaded else f"{acl.file} comes with torch"))
    return rows


def _ceilings(ceilings: Ceilings, on_device: bool = False) -> Table:
    counts = sorted({1, ceilings.threads})
    sizes = sorted({product.size for product in ceilings.gemm})
    speeds = {(g.precision, g.operator, g.threads, g.size): g.gflops for g in ceilings.gemm}
    rows: list[tuple[str, ...]] = []
    for precision, operator in dict.fromkeys((g.precision, g.operator) for g in ceilings.gemm):
        for count in counts:
            values = [speeds.get((precision, operator, count, size)) for size in sizes]
            best = max((value for value in values if value is not None), default=None)
            cells = (number(value, ".0f") for value in [*values, best])
            rows.append((f"{precision} {operator}, GFLOP/s", str(count), *cells))
    for refused in ceilings.unavailable:
        rows.append((f"{refused.precision} {refused.operator}, GFLOP/s", *(MISSING,) * (len(sizes) + 2)))
    for count in counts:
        copied = number(ceilings.gb_per_second(count), ".1f")
        rows.append(("copy, GB/s read + write", str(count), *("",) * len(sizes), copied))
    titles = ("", "threads", *(f"{size}³" for size in sizes), "best")
    columns = [Column(title, cells, is_number=title != "") for title, cells in zip(titles, zip(*rows))]
    return Table("Peaks", [columns[0], *columns[2:]] if on_device and len(counts) == 1 else columns)


def _origin(ceilings: Ceilings, kept: bool) -> str:
    return "from an earlier call; --fresh measures them again" if kept else f"measured in {ceilings.seconds:.0f} s"


def _ceiling_notes(ceilings: Ceilings, kept: bool) -> Iterator[str]:
    origin = _origin(ceilings, kept)
    if not kept and not ceilings.quiet:
        origin += f", not kept: other programs used {ceilings.other_cores:.2f} cores"
    yield f"({origin})"
    for precision in ("fp32", "bf16"):
        efficiency = ceilings.scaling(precision)
        if efficiency is not None and ceilings.threads > 1:
            times = f"{ceilings.threads} threads are {efficiency * ceilings.threads:.2f} × one"
            yield f"{precision}: {times} ({share(efficiency, 0)} of perfect)"
    fp32 = ceilings.gflops("fp32")
    for refused in ceilings.unavailable:
        yield f"{refused.precision} {refused.operator}: not available on this CPU ({refused.reason})"
    for precision in ("bf16", "int8"):
        speed = ceilings.gflops(precision)
        if fp32 and speed:
            yield f"{precision} matrix products reach {speed / fp32:.2f} × fp32's speed"


def _binary_size(size: int | None) -> str:
    if size is None:
        return "unknown"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


_STOP_REASONS = {
    StopReason.FIXED: "their number was fixed",
    StopReason.PRECISE: "the intervals were narrow enough",
    StopReason.BUDGET: "the time was used up",
    StopReason.FAILED: "no setting could run",
    StopReason.INTERRUPTED: "it was interrupted",
}


def machine(result: Result) -> list[Block]:
    """Return the facts about the machine and the libraries, and which of them differed between processes."""
    judged = [entry.report.provenance for entry in result.validity if entry.report is not None]
    where = [*(report.provenance for report in _reports(result)), *filter(None, judged)]
    seen = [(each.machine, each.libraries) for each in where]
    if isinstance(result.payload, (Load, Throughput)):
        # An instance sees only its own CPUs.
        seen = [(result.payload.machine, seen[0][1] if seen else None)]
    if not seen:
        return []
    first, *others = (
        dict((machine_rows(machine) if machine else []) + (library_rows(libraries) if libraries else []))
        for machine, libraries in seen
    )
    differing = (name for name, each in first.items() if any(other.get(name, each) != each for other in others))
    changing = [name for name in differing if name != "clock"]  # it changes without anybody changing anything
    said = f"Not the same in all processes (shown: of the first one): {', '.join(changing)}."
    return [named(first.items()), lines(said if changing else "")]


def settings(result: Result, shown: Sequence[SummaryRow]) -> list[Block]:
    """Return how each setting was resolved, with its weights, inputs and variables; how it was measured: how many
    processes there were, how long each sampled, and why no more were started; and the versions of all libraries.
    """
    of, found = Rows(shown), list[Block]()
    columns = (
        of.text("workload", lambda row: row.workload),
        Column("setting", tuple(full_names(shown, with_workload=False))),
        of.number("batch", lambda row: row.setting.batch),
        of.number("threads", lambda row: row.setting.threads),
        of.text("mode", lambda row: row.setting.mode),
        of.text("backend", lambda row: row.setting.backend),
        of.text("device", lambda row: row.setting.device),
        of.text("weights", lambda row: _weights(row.first) if row.first else None),
        of.text("inputs", lambda row: _digest(row.first.inputs_digest) if row.first else None),
        of.text("variables", lambda row: _variables(row.first.provenance.environment) if row.first else None),
        of.text("switches", lambda row: (", ".join(row.first.switches) or None) if row.first else None),
    )
    note = (
        "weights and inputs: with the first digits of their SHA-256; variables and switches: those that the suite set"
    )
    found += [Table("Settings as they ran", columns, note)] if shown else []
    ran = Rows(
        (workload, result.design(workload), [run for each in rows for run in each.runs])
        for workload, rows in by_workload([row for row in shown if row.processes]).items()
    )

    def sampled(runs: Sequence[Run]) -> str | None:
        spent = [sum(run.steady) for run in runs if run.steady]
        return seconds(median(spent)) if spent else None

    how = (
        ran.text("workload", lambda row: row[0]),
        ran.number("rounds", lambda row: 1 + max(run.round for run in row[2])),
        ran.number("processes", lambda row: len(row[2])),
        ran.number("sampled", lambda row: sampled(row[2])),
        ran.number("wanted", lambda row: f"±{percent(row[1].margin)}" if row[1] else None),
        ran.text("ended because", lambda row: (why := row[1] and row[1].stop_reason) and _STOP_REASONS[why]),
    )
    note = (
        "In each round every setting gets a new process, and the processes of a round sample in turns. sampled: median "
        "seconds per process; wanted: half width of the intervals"
    )
    found += [Table("How it was measured", how, f"{note}.")] if ran.rows else []
    versions = next((report.provenance.versions for report in _reports(result) if report.provenance.versions), {})
    return [*found, *([Details("Versions of all libraries", (named(sorted(versions.items())),))] if versions else [])]


def command(result: Result) -> list[Block]:
    """Return the command that measures all of this again, and what it depends on."""
    commit = f", commit {result.commit}" if result.commit else ""
    said = f"Measured {result.created} by modelzoo {result.version}{commit}."
    program, *arguments = result.command or ("modelzoo",)
    program = PurePath(program).name  # whatever started it
    typed = ["modelzoo" if program in ("__main__.py", "-c", "-m") else program, *arguments]
    return [lines(f"{said} This command measures all numbers of this result again:"), Command(shlex.join(typed))]


def _reports(result: Result) -> list[RunReport]:
    return [run.report for run in result.runs if run.report is not None]


def _weights(report: RunReport) -> str:
    weights = report.prepared.weights
    verified = "" if weights.verification is None else f", {VERIFICATION[weights.verification]}"
    return f"{weights.kind.value}: {weights.name}, {_digest(weights.sha256)}{verified}"


def _digest(digest: str | None) -> str:
    return digest[:DIGEST_DIGITS] if digest else MISSING


def _variables(changes: EnvironmentChanges) -> str | None:
    applied = [f"{name}={value}" for name, value in changes.applied.items()]
    return "\n".join([*applied, *(f"without {name}" for name in changes.removed)]) or None

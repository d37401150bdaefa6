"""What ``modelzoo doctor`` found, as a document. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modelzoo.document import Block, Column, Notices, Section, Table, lines
from modelzoo.formatting import MISSING, counted, number, share
from modelzoo.records.equipment import Libraries
from modelzoo.records.machine import Machine
from modelzoo.records.profile import Ceilings, CeilingSeries, DoctorReport
from modelzoo.views.details import accelerator_text, lacking


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

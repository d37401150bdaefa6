"""What ``modelzoo doctor`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from modelzoo.records.ceilings import Ceilings
from modelzoo.records.libraries import Libraries
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.warning import WarningMessage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def show(
    out: Console,
    machine: Machine,
    libraries: Libraries,
    load: CpuUsage,
    found: Ceilings | None,
    kept: bool,
    advice: Sequence[WarningMessage],
) -> None:
    """Print the machine, its ceilings, how it scales over threads, and the advice."""
    from rich.text import Text

    table = _table(out, "machine")
    for name, value in machine_rows(machine) + library_rows(libraries) + load_rows(load):
        table.add_row(name, Text(value))
    out.print(table)
    if found is None:
        out.print("no ceilings: nothing is timed under an emulator")
    else:
        _ceilings(out, found, kept)
    out.print()
    if not advice:
        out.print("nothing was found that would spoil a number")
    for entry in advice:
        # Texts may hold brackets, which are markup to rich.
        out.print(Text.assemble((f"{entry.code}  ", "bold yellow"), entry.message))
        # Hints are commands: they must survive being copied.
        out.print(Text(f"    → {entry.hint}"), soft_wrap=True)


def machine_rows(machine: Machine) -> list[tuple[str, str]]:
    """Name and value of each fact worth a line."""
    smt = f", {machine.threads_per_core} threads a core" if machine.threads_per_core > 1 else ""
    where = [
        f"{machine.hypervisor} virtual machine" if machine.hypervisor else None,
        f"{machine.container} container" if machine.container else None,
        f"emulated by {machine.emulator}" if machine.emulator else None,
    ]
    clock = [
        f"{machine.mhz / 1000:.2f} GHz now" if machine.mhz else None,
        f"{machine.max_mhz / 1000:.2f} GHz at most" if machine.max_mhz else None,
        f"governor {machine.governor}" if machine.governor else None,
    ]
    caches = [f"{c.instances} × {c.name} {_size(c.bytes)}" for c in machine.caches]
    cores = [
        str(machine.cores),
        _count(machine.sockets, "socket"),
        _count(machine.numa_nodes, "NUMA node") + smt,
    ]
    system = [f"{machine.system} {machine.kernel}", machine.libc, f"Python {machine.python}"]
    sve = f", SVE of {machine.sve_bits} bits" if machine.sve_bits else ""
    rows = [
        ("CPU", machine.cpu + (f" ({machine.product})" if machine.product else "")),
        ("features", (", ".join(machine.features) or "none that matters") + sve),
        ("cores", ", ".join(cores)),
        ("threads", f"{machine.threads.count} by default, by {machine.threads.reason}"),
        ("caches", ", ".join(caches) or "unknown"),
        ("memory", f"{_size(machine.memory)}, {_size(machine.memory_limit)} usable"),
        ("clock", ", ".join(part for part in clock if part) or "unknown"),
        ("huge pages", machine.huge_pages or "unknown"),
        ("malloc", machine.allocator or "unknown"),
        ("runs in", ", ".join(part for part in where if part) or "the bare machine"),
        ("system", ", ".join(part for part in system if part)),
    ]
    if machine.image:
        rows.append(("image", machine.image))
    if machine.environment:
        rows.append(("variables", "\n".join(f"{k}={v}" for k, v in machine.environment.items())))
    return rows


def library_rows(libraries: Libraries) -> list[tuple[str, str]]:
    """Name and value of what is known of the libraries."""
    loaded = [
        " ".join(
            part
            for part in (
                entry.owner + ":",
                entry.kind,
                entry.version,
                entry.architecture,
                f"× {entry.threads}",
            )
            if part
        )
        for entry in libraries.loaded
    ]
    packages = (f"{k} {v}" for k, v in libraries.versions.items() if k != "python")
    rows = [
        ("build", libraries.build_line),
        ("packages", ", ".join(packages)),
        ("backends", ", ".join(libraries.backends) or "ATen's own kernels only"),
        ("loaded", "\n".join(loaded) or "nothing that shows"),
    ]
    if libraries.acl_evidence:
        rows.append(("ACL", libraries.acl_evidence))
    return rows


def load_rows(load: CpuUsage) -> list[tuple[str, str]]:
    """Name and value of the load."""
    other = "unknown" if load.other_cores is None else f"{load.other_cores:.2f} cores"
    steal = "" if load.steal_percent is None else f", {load.steal_percent:.1f} % stolen"
    return [("other load", f"{other}{steal} in {load.seconds:.0f} s")]


def _ceilings(out: Console, found: Ceilings, kept: bool) -> None:
    table = _table(out, "ceilings", header=True)
    counts = sorted({1, found.threads})
    sizes = sorted({g.size for g in found.gemm})
    table.add_column("threads", justify="right")
    for size in sizes:
        table.add_column(f"{size}³", justify="right")
    table.add_column("best", justify="right", style="bold")
    seen = {(g.precision, g.operator, g.threads, g.size): g.gflops for g in found.gemm}
    for precision, operator in dict.fromkeys((g.precision, g.operator) for g in found.gemm):
        for count in counts:
            values = [seen.get((precision, operator, count, size)) for size in sizes]
            best = max((value for value in values if value is not None), default=None)
            cells = ["–" if value is None else f"{value:.0f}" for value in [*values, best]]
            table.add_row(f"{precision} {operator}, GFLOP/s", str(count), *cells)
    for count in counts:
        speed = found.gb_per_second(count)
        blank = ["" for _ in sizes]
        table.add_row("copy, GB/s read + write", str(count), *blank, "–" if speed is None else f"{speed:.1f}")
    out.print(table)
    how = "kept from before; --fresh measures anew" if kept else f"measured in {found.seconds:.0f} s"
    if not kept and found.other_cores is not None and not found.quiet:
        how += f", not kept: other programs used {found.other_cores:.2f} cores"
    out.print(f"({how})", highlight=False)
    for precision in ("fp32", "bf16"):
        scaling = found.scaling(precision)
        if scaling is not None and found.threads > 1:
            out.print(
                f"{precision}: {found.threads} threads are {scaling * found.threads:.2f} × one "
                f"({100 * scaling:.0f} % of perfect)",
                highlight=False,
            )
    fp32, bf16 = found.gflops("fp32"), found.gflops("bf16")
    if fp32 and bf16:
        out.print(f"bf16 matrix products reach {bf16 / fp32:.2f} × fp32's speed", highlight=False)


def _table(out: Console, title: str, header: bool = False) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=header, pad_edge=False)
    table.add_column("" if header else "what", style="cyan", no_wrap=True)
    if not header:
        table.add_column("value")
    return table


def _count(number: int | None, what: str) -> str:
    return f"{'?' if number is None else number} {what}{'' if number == 1 else 's'}"


def _size(size: int | None) -> str:
    if size is None:
        return "unknown"
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"

"""Look at this machine as a place to measure on: its limits, and what would spoil a number.

``diagnose`` is pure; ``run_doctor`` measures, prints and writes.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modelzoo.engines.torch.precision import FAST_MATH_VARIABLES
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import ceilings as limits
from modelzoo.machine import facts as computer
from modelzoo.machine import libraries as installation
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.records.ceilings import Ceilings
from modelzoo.records.codec import encode
from modelzoo.records.libraries import Libraries
from modelzoo.records.machine import QUIET_CORES, CpuUsage, Machine
from modelzoo.warning import WarningCode, WarningMessage, warning_for

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "modelzoo-doctor/1"
WATCH_SECONDS = 2.0
STEAL_PERCENT = 1.0
"""As wide as the interval that sampling aims at; more cannot be told from a difference."""
THROTTLED_SHARE = 0.005
"""Of the time; half of the ±1 % that a run's interval aims at."""
FAULTS_PER_SECOND = 50_000
"""At 1 to 2 µs each (measured: 700,000 in 1.5 s), 5 to 10 % of a core."""
MEMORY_NEEDED_GIB = 8
SCALING = 0.75
"""Below this share of perfect scaling something takes the cores away; GEMM itself scales to 0.9 and more."""
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "BLIS_NUM_THREADS",
)
KERNEL_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "NVPL_BLAS_DEBUG_CPU_TYPE",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
)
"""Variables by which a library takes other kernels than those for this CPU."""


def diagnose(
    machine: Machine,
    libraries: Libraries,
    load: CpuUsage | None,
    found: Ceilings | None = None,
    faults_per_mib: float | None = None,
    pair_problem: str | None = None,
) -> tuple[WarningMessage, ...]:
    """Return every condition that spoils numbers, each with what to do about it.

    Args:
        machine: the facts.
        libraries: what is installed and loaded.
        load: the load while nothing of ours ran, or ``None``.
        found: measured ceilings, for the scaling over threads.
        faults_per_mib: page faults for each MiB of a large block that is freed and allocated again
            (256 is every page); without it the environment variables decide.
        pair_problem: why torchvision cannot be used with this torch; without it the versions decide.
    """
    advice: list[WarningMessage] = []
    if machine.emulator is not None:
        advice.append(warning_for(WarningCode.EMULATED))
    if not machine.has_bf16:
        features = ", ".join(machine.features) or machine.cpu
        advice.append(warning_for(WarningCode.NO_BF16_HARDWARE, features=features))
    if load is not None:
        advice += load_warnings(load, machine, faults=False)
    advice += _kernel_warnings(machine)
    advice += _variable_warnings(machine)
    advice += _library_warnings(libraries, pair_problem)
    advice += _memory_warnings(machine, faults_per_mib)
    # With other load the scaling says nothing about the machine, and OTHER_LOAD is named already.
    quiet = found is not None and (found.other_cores or 0.0) <= QUIET_CORES
    scaling = found.scaling() if found is not None and quiet else None
    if found is not None and scaling is not None and found.threads > 1 and scaling < SCALING:
        advice.append(
            warning_for(
                WarningCode.POOR_SCALING,
                threads=found.threads,
                percent=100 * scaling,
                half=max(1, found.threads // 2),
            )
        )
    return tuple(advice)


def load_warnings(load: CpuUsage, machine: Machine, *, faults: bool = True) -> tuple[WarningMessage, ...]:
    """Return what ``load``, watched during a run, says against the run's figures."""
    advice: list[WarningMessage] = []
    if load.other_cores is not None and load.other_cores > max(QUIET_CORES, load.resolution):
        advice.append(warning_for(WarningCode.OTHER_LOAD, cores=load.other_cores))
    if load.steal_percent is not None and load.steal_percent > STEAL_PERCENT:
        # A few ticks stolen from an idle machine are a large share of nothing.
        busy = load.own_cores + (load.other_cores or 0.0)
        if busy * load.steal_percent / 100 > load.resolution:
            advice.append(warning_for(WarningCode.STOLEN_TIME, percent=load.steal_percent))
    if load.throttled_seconds and load.throttled_seconds > THROTTLED_SHARE * load.seconds:
        advice.append(
            warning_for(
                WarningCode.THROTTLED,
                seconds=load.throttled_seconds,
                total=load.seconds,
                threads=max(1, machine.threads.count - 1),
            )
        )
    rate = load.minor_faults / max(load.seconds - load.waited_seconds, 1e-9)
    if faults and rate > FAULTS_PER_SECOND:
        advice.append(warning_for(WarningCode.PAGE_FAULTS, detail=f"{rate:,.0f} page faults a second"))
    return tuple(advice)


def _kernel_warnings(machine: Machine) -> list[WarningMessage]:
    advice: list[WarningMessage] = []
    threads = machine.threads
    if machine.governor is not None and machine.governor != "performance":
        advice.append(warning_for(WarningCode.GOVERNOR, governor=machine.governor))
    if machine.huge_pages == "never":
        advice.append(warning_for(WarningCode.HUGE_PAGES))
    if machine.threads_per_core > 1 and threads.affinity > threads.physical_cores:
        one_of_each = "lscpu -p=CPU,CORE,SOCKET | grep -v '^#' | sort -t, -uk2 | cut -d, -f1 | paste -sd,"
        command = f"taskset -c $({one_of_each}) before the command"
        advice.append(warning_for(WarningCode.SMT, threads=machine.threads_per_core, command=command))
    if threads.quota is not None and threads.quota < threads.affinity:
        last = max(0, int(threads.quota) - 1)
        advice.append(warning_for(WarningCode.CPU_QUOTA, quota=threads.quota, cpus=threads.affinity, last=last))
    if machine.numa_allowed is not None and machine.numa_allowed > 1:
        advice.append(warning_for(WarningCode.NUMA, nodes=machine.numa_allowed))
    return advice


def _variable_warnings(machine: Machine) -> list[WarningMessage]:
    advice: list[WarningMessage] = []
    cores = machine.threads.count
    for name in THREAD_VARIABLES:
        # A list gives the threads of nested regions; the first is the outer one.
        value = machine.environment.get(name, "").partition(",")[0].strip()
        if value.isdigit() and int(value) > cores:
            advice.append(warning_for(WarningCode.THREADS_VARIABLE, name=name, value=value, cores=cores))
    forced = [f"{name}={machine.environment[name]}" for name in KERNEL_VARIABLES if machine.environment.get(name)]
    if forced:
        advice.append(warning_for(WarningCode.FORCED_KERNELS, names=", ".join(forced)))
    policy = machine.environment.get("OMP_WAIT_POLICY")
    if policy:
        advice.append(warning_for(WarningCode.WAIT_POLICY, value=policy))
    names = [f"{name}={machine.environment[name]}" for name in FAST_MATH_VARIABLES if name in machine.environment]
    names = [name for name in names if not name.lower().endswith(("=strict", "=0", "="))]
    if names:
        advice.append(warning_for(WarningCode.FAST_MATH, names=", ".join(names)))
    return advice


def _library_warnings(libraries: Libraries, pair_problem: str | None) -> list[WarningMessage]:
    advice: list[WarningMessage] = []
    runtimes = [f"{entry.owner}: {entry.file}" for entry in libraries.loaded if entry.api == "openmp"]
    if libraries.two_openmp:
        advice.append(warning_for(WarningCode.TWO_OPENMP, count=len(runtimes), names=", ".join(runtimes)))
    torch, vision = libraries.versions.get("torch"), libraries.versions.get("torchvision")
    problem = pair_problem or (installation.check_pair(torch, vision) if torch and vision else None)
    if problem is not None:
        advice.append(warning_for(WarningCode.MISMATCHED_PAIR, problem=problem))
    return advice


def _memory_warnings(machine: Machine, faults_per_mib: float | None) -> list[WarningMessage]:
    advice: list[WarningMessage] = []
    gib = None if machine.memory_limit is None else machine.memory_limit / 2**30
    if gib is not None and gib < MEMORY_NEEDED_GIB:
        advice.append(warning_for(WarningCode.SMALL_MEMORY, gib=gib, needed=MEMORY_NEEDED_GIB))
    if faults_per_mib is not None:
        # With huge pages a block costs next to nothing; 256 faults a MiB are one for each 4 KiB.
        if faults_per_mib > 64:
            detail = f"{faults_per_mib:.0f} page faults for each MiB that is used again"
            advice.append(warning_for(WarningCode.PAGE_FAULTS, detail=detail))
    elif machine.allocator == "glibc" and not _malloc_is_tuned(machine.environment):
        advice.append(warning_for(WarningCode.PAGE_FAULTS, detail="glibc with its default thresholds"))
    return advice


def _malloc_is_tuned(environment: dict[str, str]) -> bool:
    return "MALLOC_MMAP_THRESHOLD_" in environment or "mmap_threshold" in environment.get("GLIBC_TUNABLES", "")


def probe_pair() -> str | None:
    """Why torchvision cannot be used with this torch, in one line; ``None`` where it can.

    Builds from two indexes may be of one release and still not load each other's operators.
    """
    try:
        installation.import_torchvision()
    except EnvironmentProblem as problem:
        return str(problem)
    return None


def probe_faults(mib: int = 64, rounds: int = 5) -> float | None:
    """Count the page faults for each MiB of a tensor that is freed and allocated again.

    Returns:
        0 where the memory is kept, 256 where every 4 KiB page is new; ``None`` off Unix.
    """
    try:
        import resource
    except ImportError:
        return None
    torch = installation.import_torch()
    size = mib << 18  # floats
    # The first are new in any case, and glibc with raised thresholds settles after 7 (measured).
    for _ in range(10):
        torch.empty(size).fill_(1.0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        torch.empty(size).fill_(1.0)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (mib * rounds)


def run_doctor(out: Console, json_path: Path | None = None, fresh: bool = False) -> int:
    """Examine this machine, print what was found, and write it to ``json_path``.

    Takes some 30 s, or 5 s where the ceilings are known from before and not asked for ``fresh``. Call it
    before torch is imported: fast-math variables are taken out of the environment, so that the fp32
    ceiling is one of fp32.

    Returns:
        0; advice is no failure.

    Raises:
        EnvironmentProblem: torch cannot be imported.
        UsageError: ``json_path`` cannot be written.
    """
    from modelzoo.report import doctor as doctor_report

    machine = computer.facts()
    for name in FAST_MATH_VARIABLES:
        os.environ.pop(name, None)
    installation.import_torch()
    with out.status("watching the other load …"):
        watch = CpuUsageMonitor().start()
        time.sleep(WATCH_SECONDS)
        load = watch.stop()
    found, kept = None, False
    if machine.emulator is None:
        with out.status("measuring …") as status:
            found, kept = limits.find_ceilings(
                machine, fresh=fresh, progress=lambda step: status.update(f"measuring: {step} …")
            )
    libraries = installation.facts()
    advice = diagnose(machine, libraries, load, found, probe_faults(), probe_pair())
    doctor_report.show(out, machine, libraries, load, found, kept, advice)
    if json_path is not None:
        _write(
            json_path,
            {
                "schema": SCHEMA,
                "machine": asdict(machine),
                "libraries": asdict(libraries),
                "load": asdict(load),
                "ceilings": None if found is None else encode(found),
                "ceilings_kept": kept,
                "advice": [asdict(entry) for entry in advice],
            },
        )
    return 0


def _write(path: Path, data: dict[str, Any]) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".doctor-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
        Path(name).replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; give another path") from error

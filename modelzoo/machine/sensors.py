"""What is watched while something is measured.

How busy the CPUs were, with our own work and with that of others; clocks, power and temperature of an accelerator, by
NVML or the vendor's tool, whose clocks may be locked for a call.
"""

from __future__ import annotations

import importlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import linux
from modelzoo.machine.linux import FILESYSTEM_ROOT, output_of, read_throttling
from modelzoo.machine.memory import huge_page_bytes
from modelzoo.records.equipment import Reading
from modelzoo.records.machine import ClockFrequency, CpuUsage


def parse_stat(text: str, cpus: frozenset[int]) -> tuple[int, int] | None:
    """Return the clock ticks that ``cpus`` were busy (user, nice, system, interrupts), and that were stolen from them.

    ``None`` if ``text``, that of ``/proc/stat``, has none of them. User time includes guest time (source:
    proc_stat(5)).
    """
    busy = stolen = lines = 0
    for line in text.splitlines():
        name, *rest = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) for value in (rest + ["0"] * 8)[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
            lines += 1
    return (busy, stolen) if lines else None


Counters = dict[str, float | None]
"""Counters at one time, by name; those of the system are ``None`` where it does not have them."""


class CpuUsageMonitor:
    """Measures the CPU usage from its creation to ``stop``.

    Each takes well under a millisecond, or up to 0.3 s on old x86 kernels that report frequencies slowly.

    Args:
        pid: the process whose tree counts as our own work, by default this one. A worker passes its parent's id, so
            that the parent does not count as other load.
        root: the directory that stands for ``/``.
    """

    def __init__(self, pid: int | None = None, root: Path = FILESYSTEM_ROOT) -> None:
        self._pid, self._root = os.getpid() if pid is None else pid, root
        self._cpus = linux.allowed_cpus()
        self._mhz_before = linux.current_mhz(self._cpus, self._root)
        self._marks = [self._snapshot()]

    def mark(self) -> None:
        """What follows is no part of the period, until the next mark."""
        self._marks.append(self._snapshot())

    def stop(self, waited: float = 0.0) -> CpuUsage:
        """Return the usage so far; may be called several times.

        Args:
            waited: seconds of the period in which this process waited for its turn.
        """
        marks = [*self._marks, self._snapshot()]
        starts, ends = marks[::2], marks[1::2]

        def spent(name: str) -> float | None:
            """How far a counter went."""
            pairs = [(start[name], end[name]) for start, end in zip(starts, ends)]
            known = [second - first for first, second in pairs if first is not None and second is not None]
            return sum(known) if known else None

        seconds, own = max(spent("clock") or 0.0, 1e-9), max(0.0, spent("own_seconds") or 0.0)
        tick = 1 / os.sysconf("SC_CLK_TCK")
        busy, stolen, other, steal = spent("busy"), spent("stolen"), None, None
        if busy is not None and stolen is not None:
            other = max(0.0, busy * tick - own) / seconds
            steal = 100 * stolen / (busy + stolen) if busy + stolen > 0 else 0.0
        samples = self._mhz_before + linux.current_mhz(self._cpus, self._root)
        return CpuUsage(
            seconds=seconds,
            own_cores=own / seconds,
            other_cores=other,
            steal_percent=steal,
            # The ends of the pieces are rounded independently of each other.
            resolution=tick * len(self._cpus) * len(starts) ** 0.5 / seconds,
            minor_faults=int(spent("faults") or 0),
            involuntary_switches=int(spent("switches") or 0),
            throttled_seconds=spent("throttled"),
            waited_seconds=waited,
            frequency=ClockFrequency(fmean(samples), min(samples), max(samples)) if samples else None,
            huge_pages=huge_page_bytes(self._root),
        )

    def _snapshot(self) -> Counters:
        usage, throttled = resource.getrusage(resource.RUSAGE_SELF), read_throttling(self._root)
        busy, stolen = parse_stat(linux.read_text(self._root / "proc/stat") or "", self._cpus) or (None, None)
        return {
            "clock": time.perf_counter(),
            "own_seconds": process_tree_seconds(self._pid),
            "faults": usage.ru_minflt,
            "switches": usage.ru_nivcsw,
            "busy": busy,
            "stolen": stolen,
            "throttled": None if throttled is None else throttled.seconds,
        }


def process_tree_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, its living descendants, and those that have ended and been waited for."""
    import psutil

    try:
        parent = psutil.Process(pid)
        members = [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0.0
    for process in members:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has ended meanwhile
            continue
        total += times.user + times.system
        # macOS does not report the times of ended children.
        total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


_NPU_FIELDS = {"mhz": r"Aicore curFreq\(MHZ\)", "watts": r"NPU Real-time Power\(W\)", "celsius": r"Temperature\(C\)"}
"""The lines of ``npu-smi info -t common`` that are read; the first temperature is that of the NPU."""


class Sensors(msgspec.Struct, frozen=True):
    """The sensors of one accelerator.

    Attributes:
        source: where the values come from.
        is_fast: whether a reading takes little enough time to be taken between timed calls.
        read: reads all of them, whose phase and calls the caller knows; one that the accelerator does not have is
            ``None``.
    """

    source: str
    is_fast: bool
    read: Callable[[], Reading]


def npu_sensors(index: int) -> Sensors:
    """The sensors of an Ascend NPU by ``npu-smi``, a program that takes tenths of a second.

    Raises:
        EnvironmentProblem: there is no ``npu-smi``.
    """
    program = shutil.which("npu-smi")
    if program is None:
        raise EnvironmentProblem("clocks, power and temperature are read by npu-smi, which is not on PATH")
    command = [program, "info", "-t", "common", "-i", str(index)]
    return Sensors("npu-smi", is_fast=False, read=lambda: parse_npu_smi(output_of(*command) or ""))


def parse_npu_smi(output: str) -> Reading:
    """Read the output of ``npu-smi info -t common -i N``."""
    found = {name: re.search(rf"^\s*{label}\s*:\s*([\d.]+)\s*$", output, re.M) for name, label in _NPU_FIELDS.items()}
    values = {name: None if match is None else float(match[1]) for name, match in found.items()}
    return Reading("steady", 0, mhz=values["mhz"], watts=values["watts"], celsius=values["celsius"])


INSTALL = "pip install nvidia-ml-py"
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
THROTTLE_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal limit (driver)",
    0x40: "thermal limit (hardware)",
    0x80: "power brake",
}
"""The bits of NVML's clock event reasons that hold the clock down under load (source: NVML API reference,
"NvmlClocksEventReasons"). An idle GPU, clocks set by the user, and GPUs that run in step are no throttling."""


def library() -> Any:
    """NVML, initialized.

    Raises:
        EnvironmentProblem: the package is not installed, or there is no driver.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise EnvironmentProblem(f"clocks, power and temperature are read by nvidia-ml-py: {INSTALL}") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise EnvironmentProblem(f"NVML cannot be used: {error}") from error
    return nvml


def nvml_sensors(identifier: str | None, index: int, environ: Mapping[str, str]) -> Sensors:
    """The sensors of one GPU.

    Args:
        identifier: its UUID; ``None``: the index decides.
        index: its number among those that the process can use.
        environ: the variables of the process.

    Raises:
        EnvironmentProblem: NVML cannot be used, or does not know the GPU.
    """
    nvml = library()
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(identifier) if identifier else handles(nvml, environ)[index]
    except (nvml.NVMLError, IndexError) as error:
        raise EnvironmentProblem(f"NVML does not know the GPU {identifier or index}: {error}") from error
    # The name changed with driver 535.
    events = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    reasons_of = events or nvml.nvmlDeviceGetCurrentClocksThrottleReasons

    def value(function: Callable[..., Any], *of: Any, unit: float = 1.0) -> float | None:
        try:
            return float(function(handle, *of)) / unit
        except nvml.NVMLError:
            return None

    def read() -> Reading:
        reasons = int(value(reasons_of) or 0)
        return Reading(
            "steady",
            0,
            mhz=value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            memory_mhz=value(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
            watts=value(nvml.nvmlDeviceGetPowerUsage, unit=1000),
            celsius=value(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            joules=value(nvml.nvmlDeviceGetTotalEnergyConsumption, unit=1000),
            throttled=tuple(name for bit, name in THROTTLE_REASONS.items() if reasons & bit),
        )

    return Sensors("NVML", is_fast=True, read=read)


def handles(nvml: Any, environ: Mapping[str, str]) -> list[Any]:
    """NVML's handles of the GPUs that a process with these variables can use, all by default."""
    named = [word.strip() for word in environ.get(VISIBLE_VARIABLE, "").split(",") if word.strip()]
    if not named:
        return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    return [
        nvml.nvmlDeviceGetHandleByIndex(int(word)) if word.isdigit() else nvml.nvmlDeviceGetHandleByUUID(word)
        for word in named
    ]


_LOCKED = "locked"


@contextmanager
def locked_clocks(mhz: int | None) -> Iterator[None]:
    """Hold the clocks of all GPUs that the workers may use at ``mhz``; ``None``: leave them alone.

    Raises:
        EnvironmentProblem: they cannot be locked; the message says why.
    """
    if mhz is None:
        yield
        return
    guard = subprocess.Popen(
        [sys.executable, "-m", "modelzoo.machine.sensors", str(mhz)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guard.stdin is not None and guard.stdout is not None
    try:
        said = guard.stdout.readline().strip()
        if said != _LOCKED:
            raise EnvironmentProblem(f"--lock-clocks {mhz}: {said or 'the process that locks them ended'}")
        yield
    finally:
        guard.stdin.close()
        guard.wait()
        guard.stdout.close()


def main(arguments: Sequence[str]) -> int:
    """Be the guard: lock the clocks, wait until standard input is closed, and set them back."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        nvml = library()
        gpus = handles(nvml, os.environ)
    except EnvironmentProblem as problem:
        print(problem, flush=True)
        return 2
    return hold(nvml, gpus, int(arguments[0]))


def hold(nvml: Any, gpus: Sequence[Any], mhz: int) -> int:
    """Lock ``gpus`` at ``mhz`` until standard input is closed or a signal ends this process."""
    locked: list[Any] = []
    try:
        for gpu in gpus:
            nvml.nvmlDeviceSetGpuLockedClocks(gpu, mhz, mhz)
            locked.append(gpu)
        print(_LOCKED, flush=True)
        sys.stdin.read()
        return 0
    except nvml.NVMLError as error:
        print(f"NVML refuses ({error}); run as root, and see nvidia-smi -q -d SUPPORTED_CLOCKS", flush=True)
        return 2
    finally:
        for gpu in locked:
            nvml.nvmlDeviceResetGpuLockedClocks(gpu)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Clocks, power and temperature of an accelerator, by NVML or the vendor's tool, and locking its clocks for a call."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.linux import output_of

_NPU_FIELDS = {
    "mhz": r"Aicore curFreq\(MHZ\)",
    "watts": r"NPU Real-time Power\(W\)",
    "celsius": r"Temperature\(C\)",
}
"""The lines of ``npu-smi info -t common`` that are read; the first temperature is that of the NPU."""


class SensorValues(msgspec.Struct, frozen=True):
    """What the sensors show; see ``modelzoo.records.accelerator.Reading``."""

    mhz: float | None = None
    memory_mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None
    joules: float | None = None
    throttled: tuple[str, ...] = ()


class Sensors(msgspec.Struct, frozen=True):
    """The sensors of one accelerator.

    Attributes:
        source: where the values come from.
        is_fast: whether a reading takes little enough time to be taken between timed calls.
        read: reads all of them; one that the accelerator does not have is ``None``.
    """

    source: str
    is_fast: bool
    read: Callable[[], SensorValues]


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


def parse_npu_smi(output: str) -> SensorValues:
    """Read the output of ``npu-smi info -t common -i N``."""
    found = {name: re.search(rf"^\s*{label}\s*:\s*([\d.]+)\s*$", output, re.M) for name, label in _NPU_FIELDS.items()}
    values = {name: None if match is None else float(match[1]) for name, match in found.items()}
    return SensorValues(mhz=values["mhz"], watts=values["watts"], celsius=values["celsius"])


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

    def read() -> SensorValues:
        reasons = int(value(reasons_of) or 0)
        return SensorValues(
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

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
from typing import Any, Protocol

import msgspec

from modelzoo.errors import EnvironmentProblem

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


class Sensors(Protocol):
    """The sensors of one accelerator."""

    @property
    def source(self) -> str:
        """Where the values come from."""

    @property
    def is_fast(self) -> bool:
        """Whether a reading takes little enough time to be taken between timed calls."""

    def read(self) -> SensorValues:
        """Read all of them."""


class NpuSensors:
    """An Ascend NPU's sensors by ``npu-smi``, a program that takes tenths of a second.

    Args:
        program: its path.
        index: number of the NPU.
    """

    source = "npu-smi"
    is_fast = False

    def __init__(self, program: str, index: int) -> None:
        self._command = [program, "info", "-t", "common", "-i", str(index)]

    def read(self) -> SensorValues:
        """Run the program; what it does not show is ``None``."""
        try:
            done = subprocess.run(self._command, capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return SensorValues()
        return parse_npu_smi(done.stdout)


def npu_sensors(index: int) -> NpuSensors:
    """The sensors of an NPU.

    Raises:
        EnvironmentProblem: there is no ``npu-smi``.
    """
    program = shutil.which("npu-smi")
    if program is None:
        raise EnvironmentProblem("clocks, power and temperature are read by npu-smi, which is not on PATH")
    return NpuSensors(program, index)


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


class NvmlSensors:
    """One GPU's sensors.

    Args:
        nvml: the library.
        handle: NVML's handle of the GPU.
    """

    source = "NVML"
    is_fast = True

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        # The name changed with driver 535.
        self._reasons: Callable[[Any], int] = (
            getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )

    def read(self) -> SensorValues:
        """Read every sensor; one that this GPU does not have is ``None``."""
        nvml, handle = self._nvml, self._handle
        reasons = self._value(lambda: self._reasons(handle))
        power = self._value(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        energy = self._value(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        return SensorValues(
            mhz=self._value(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            memory_mhz=self._value(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
            watts=None if power is None else power / 1000,
            celsius=self._value(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            joules=None if energy is None else energy / 1000,
            throttled=tuple(name for bit, name in THROTTLE_REASONS.items() if int(reasons or 0) & bit),
        )

    def _value(self, read: Callable[[], Any]) -> float | None:
        try:
            return float(read())
        except self._nvml.NVMLError:
            return None


def nvml_sensors(identifier: str | None, index: int, environ: Mapping[str, str]) -> NvmlSensors:
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
    return NvmlSensors(nvml, handle)


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

"""The sensors and the clocks of NVIDIA's GPUs, by NVIDIA's management library (the package nvidia-ml-py)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Callable, Optional

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine.sensors import SensorValues

INSTALL = "pip install 'modelzoo[cuda]'"
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

    def _value(self, read: Callable[[], Any]) -> Optional[float]:
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

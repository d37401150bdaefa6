"""NVML without a GPU: the names of ``pynvml`` that the suite uses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """What NVML raises."""


def fake_nvml(*, reasons: int = 0, denied: bool = False, count: int = 2, log: str = "/dev/null") -> Any:
    """A library with ``count`` GPUs; the file ``log`` has what was locked and set back, ``denied`` refuses to lock."""

    def note(text: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def not_supported(handle: str) -> int:
        raise NVMLError("Not Supported")

    def lock(handle: str, low: int, high: int) -> None:
        if denied:
            raise NVMLError("Insufficient Permissions")
        note(f"{handle} locked at {low} to {high}")

    def by_uuid(uuid: str) -> str:
        if not uuid.startswith("GPU-"):
            raise NVMLError("Not Found")
        return uuid

    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: f"gpu {index}",
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetClockInfo=lambda handle, kind: {1: 1980, 2: 2619}[kind],
        nvmlDeviceGetPowerUsage=lambda handle: 312_500,
        nvmlDeviceGetTemperature=lambda handle, kind: 45,
        nvmlDeviceGetTotalEnergyConsumption=not_supported,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: reasons,
        nvmlDeviceSetGpuLockedClocks=lock,
        nvmlDeviceResetGpuLockedClocks=lambda handle: note(f"{handle} set back"),
    )

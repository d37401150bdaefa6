"""NVIDIA's sensors, with a library that has no GPU behind it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from fake_nvml import fake_nvml

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import sensors


def test_every_sensor_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In MHz, watts and °C; a sensor that a GPU does not have is nothing, and an idle clock is no throttling."""
    library = fake_nvml(reasons=0x01 | 0x04 | 0x40)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    found = sensors.nvml_sensors("GPU-0123", 0, {}).read()
    assert (found.mhz, found.memory_mhz, found.watts, found.celsius, found.joules) == (1980, 2619, 312.5, 45, None)
    assert found.throttled == ("power cap", "thermal limit (hardware)")


def test_newer_drivers_have_another_name_for_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Event reasons, since driver 535."""
    library = fake_nvml()
    library.nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 0x20
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert sensors.nvml_sensors(None, 1, {}).read().throttled == ("thermal limit (driver)",)


def test_the_variable_decides_which_gpus_a_process_has() -> None:
    """By number or by UUID; all without it."""
    library = fake_nvml()
    assert sensors.handles(library, {}) == ["gpu 0", "gpu 1"]
    assert sensors.handles(library, {"CUDA_VISIBLE_DEVICES": "1"}) == ["gpu 1"]
    assert sensors.handles(library, {"CUDA_VISIBLE_DEVICES": "GPU-7, 0"}) == ["GPU-7", "gpu 0"]


@pytest.mark.parametrize(("identifier", "index"), [("MIG-1", 0), (None, 2)])
def test_a_gpu_that_nvml_does_not_know(identifier: str | None, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no sensors then, and the reason is one line."""
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    with pytest.raises(EnvironmentProblem, match="NVML does not know the GPU"):
        sensors.nvml_sensors(identifier, index, {})


def test_a_missing_library_or_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is an extra; without a driver it cannot be used."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(EnvironmentProblem, match=r"read by nvidia-ml-py: pip install 'modelzoo\[cuda\]'"):
        sensors.library()

    def fail() -> None:
        raise OSError("NVML Shared Library Not Found")

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(NVMLError=OSError, nvmlInit=fail))
    with pytest.raises(EnvironmentProblem, match="NVML cannot be used: NVML Shared Library Not Found"):
        sensors.library()

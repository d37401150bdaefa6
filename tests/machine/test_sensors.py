"""npu-smi is read; its output is that of Huawei's documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo.errors import EnvironmentProblem
from modelzoo.machine import sensors
from modelzoo.machine.sensors import SensorValues, npu_sensors, parse_npu_smi

OUTPUT = """\
        NPU ID                         : 1
        Chip Count                     : 1

        Chip ID                        : 0
        Memory Usage Rate(%)           : 0
        HBM Usage Rate(%)              : 91
        Aicore Usage Rate(%)           : 6
        Aicore Freq(MHZ)               : 1800
        Aicore curFreq(MHZ)            : 800
        Aicore Count                   : 20
        Temperature(C)                 : 46
        NPU Real-time Power(W)         : 130.4

        Chip Name                      : mcu
        Temperature(C)                 : 40
"""


def test_the_current_frequency_power_and_temperature() -> None:
    """Those of the NPU, not its nominal frequency and not the temperature of its controller."""
    assert parse_npu_smi(OUTPUT) == SensorValues(mhz=800.0, watts=130.4, celsius=46.0)
    assert parse_npu_smi("") == SensorValues()


def test_the_program_is_asked_for_one_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is slow, so it is not run between calls; without it the reason is said."""
    program = tmp_path / "npu-smi"
    program.write_text('#!/bin/sh\necho "NPU Real-time Power(W) : $5"\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = npu_sensors(3)
    assert (found.read(), found.is_fast) == (SensorValues(watts=3.0), False)
    monkeypatch.setattr(sensors.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentProblem, match="read by npu-smi, which is not on PATH"):
        npu_sensors(0)
    program.unlink()
    assert found.read() == SensorValues()

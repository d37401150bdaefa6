"""Clocks, power and temperature of an accelerator: what can be read, by which tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Optional, Protocol

from modelzoo.errors import EnvironmentProblem

_NPU_FIELDS = {
    "mhz": r"Aicore curFreq\(MHZ\)",
    "watts": r"NPU Real-time Power\(W\)",
    "celsius": r"Temperature\(C\)",
}
"""The lines of ``npu-smi info -t common`` that are read; the first temperature is that of the NPU."""


@dataclass(frozen=True)
class SensorValues:
    """What the sensors show; see ``modelzoo.records.accelerator.Reading``."""

    mhz: Optional[float] = None
    memory_mhz: Optional[float] = None
    watts: Optional[float] = None
    celsius: Optional[float] = None
    joules: Optional[float] = None
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

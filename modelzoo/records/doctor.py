"""The report of ``modelzoo doctor``."""

from __future__ import annotations

import msgspec

from modelzoo.frozen import Public
from modelzoo.records.accelerator import Accelerator
from modelzoo.records.libraries import Libraries
from modelzoo.records.machine import CpuUsage, Machine
from modelzoo.records.profile import Ceilings
from modelzoo.warning import WarningMessage

DOCTOR_SCHEMA = "modelzoo-doctor/3.0"


class CeilingSeries(msgspec.Struct, frozen=True):
    """What is measured next for the peaks.

    Attributes:
        operator: that of ``Gemm``, or ``None`` for copies in memory.
        precision: of the operands; ``None`` for copies.
        threads: number of threads; ``None`` on an accelerator.
        device: torch's name of the accelerator; ``None``: the CPU.
    """

    operator: str | None = None
    precision: str | None = None
    threads: int | None = None
    device: str | None = None


class AcceleratorReport(msgspec.Struct, frozen=True):
    """An accelerator and its measured limits.

    Attributes:
        device: what it is.
        ceilings: its limits.
        ceilings_kept: whether they were kept from an earlier measurement.
    """

    device: Accelerator
    ceilings: Ceilings
    ceilings_kept: bool


class DoctorReport(msgspec.Struct, frozen=True):
    """What ``modelzoo doctor`` found.

    Attributes:
        machine: the facts.
        libraries: what is installed and loaded.
        usage: while the suite itself was idle.
        ceilings: the measured limits; ``None`` under an emulator.
        ceilings_kept: whether the peaks were kept from an earlier measurement.
        warnings: every condition that may distort a result.
        schema: name and version of this format; a minor version only adds fields.
        accelerator: the one that ``--device`` named; ``None``: none was.
    """

    machine: Machine
    libraries: Libraries
    usage: CpuUsage
    ceilings: Ceilings | None
    ceilings_kept: bool
    warnings: tuple[WarningMessage, ...]
    schema: Public = DOCTOR_SCHEMA
    accelerator: AcceleratorReport | None = None

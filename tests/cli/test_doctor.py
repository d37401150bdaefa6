"""The command ``modelzoo doctor``."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from calls import called
from example_machine import CEILINGS, LIBRARIES, SERVER, machine_with
from simulated_device import SimulatedDevice

from modelzoo.cli import doctor
from modelzoo.engines.torch import devices
from modelzoo.frozen import replace
from modelzoo.records.codec import decode
from modelzoo.records.machine import Machine
from modelzoo.records.profile import DOCTOR_SCHEMA, Ceilings, DoctorReport


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    """Replace all measurements by those of a good machine; return the machines whose ceilings were measured."""
    machines: list[Machine] = []

    def find_ceilings(machine: Machine, measure: Any, device: Any = None, **_: object) -> tuple[Ceilings, bool]:
        machines.append(machine)
        return (CEILINGS if device is None else measure()), False

    monkeypatch.setattr(doctor, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(doctor, "read_machine", lambda: SERVER)
    monkeypatch.setattr(doctor, "read_libraries", lambda: LIBRARIES)
    monkeypatch.setattr(doctor, "find_ceilings", find_ceilings)
    monkeypatch.setattr(doctor, "probe_page_faults", lambda: 0.0)
    return machines


def test_the_report_is_printed_and_written(
    measured: list[Machine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Machine, ceilings and warnings are on stderr, and all of it is in the JSON, which can be read again."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    machine = machine_with(governor="powersave", environment={"DNNL_DEFAULT_FPMATH_MODE": "BF16"})
    monkeypatch.setattr(doctor, "read_machine", lambda: machine)
    code, shown, _ = called("doctor", "--json", tmp_path / "doctor.json")
    assert (code, measured) == (0, [machine])
    for part in ("Neoverse-N2", "fp32 mm, GFLOP/s", "GOVERNOR", "cpupower", "FAST_MATH"):
        assert part in shown
    stored = decode(DoctorReport, json.loads((tmp_path / "doctor.json").read_text()))
    assert (stored.schema, stored.machine, stored.ceilings) == (DOCTOR_SCHEMA, machine, CEILINGS)
    assert {"GOVERNOR", "FAST_MATH"} <= {warning.code for warning in stored.warnings}
    # What would reduce the precision of fp32 is removed before torch measures.
    assert "DNNL_DEFAULT_FPMATH_MODE" not in os.environ


def test_nothing_is_timed_under_an_emulator(measured: list[Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    """No ceilings are measured, and the report says so."""
    monkeypatch.setattr(doctor, "read_machine", lambda: machine_with(emulator="qemu-user"))
    code, shown, _ = called("doctor")
    assert (code, measured) == (0, [])
    assert "EMULATED" in shown and "no peaks" in shown


def test_the_ceilings_of_an_accelerator(
    measured: list[Machine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are measured in each precision that it has, and printed and written beside those of the host."""
    simulated = SimulatedDevice()
    requested: list[object] = []

    def measure(device: object, facts: object, machine: object, precision: object, *rest: Any, **_: object) -> Ceilings:
        requested.append(rest[0])
        return replace(CEILINGS, device="Simulated GPU")

    monkeypatch.setattr(devices, "check_device", lambda name: None)
    monkeypatch.setattr(devices, "select_device", lambda name: simulated)
    monkeypatch.setattr(doctor, "measure_device_ceilings", measure)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "old")
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: nullcontext())
    code, shown, _ = called("doctor", "--device", "cuda", "--json", tmp_path / "doctor.json")
    assert (code, requested) == (0, [["fp32", "bf16", "fp16"]])
    assert "cuda:0: Simulated GPU, compute capability 9.0" in shown
    stored = decode(DoctorReport, json.loads((tmp_path / "doctor.json").read_text()))
    assert stored.accelerator.ceilings.device == "Simulated GPU"


def test_a_device_that_is_not_there_is_an_error_before_the_host_is_measured(measured: list[Machine]) -> None:
    """That takes half a minute."""
    code, _, err = called("doctor", "--device", "cuda:99")
    assert (code, measured) == (2, [])
    assert err.startswith("modelzoo: error: --device cuda")

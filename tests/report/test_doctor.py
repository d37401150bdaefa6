"""What ``modelzoo doctor`` prints."""

from __future__ import annotations

import dataclasses
import io

from example_machine import CEILINGS, LIBRARIES, QUIET, SERVER, TWO_CORES, machine_with
from rich.console import Console

from modelzoo.records.doctor import DoctorReport
from modelzoo.report.doctor import library_rows, machine_rows, show_doctor_report, usage_rows
from modelzoo.warning import WarningCode, warning_for

REPORT = DoctorReport(
    machine=SERVER, libraries=LIBRARIES, usage=QUIET, ceilings=CEILINGS, ceilings_kept=False, warnings=()
)


def shown(**changes: object) -> str:
    """Return what is printed for a good machine with ``changes`` to the report."""
    file = io.StringIO()
    report = dataclasses.replace(REPORT, **changes)  # type: ignore[arg-type]
    show_doctor_report(Console(file=file, width=120), report)
    return file.getvalue()


def test_machine_ceilings_and_scaling_are_shown() -> None:
    """The tables, the origin of the ceilings and the scaling are printed."""
    text = shown()
    for part in (
        "Neoverse-N2",
        "fp32 mm, GFLOP/s",
        "300",
        "(measured in 20 s)",
        "94 % of perfect",
        "3.00 × fp32's speed",
    ):
        assert part in text
    assert "found nothing that would distort a result" in text
    assert "--fresh" in shown(ceilings_kept=True)
    assert "not kept: other programs used 1.50 cores" in shown(ceilings=dataclasses.replace(TWO_CORES, other_cores=1.5))


def test_warnings_are_shown_with_hints_that_can_be_copied() -> None:
    """A hint is not wrapped, and its brackets are not taken for markup."""
    warning = warning_for(WarningCode.SMT, threads=2, command="taskset -c $(x | grep -v '^#' | [y]) " + 40 * "long ")
    lines = shown(warnings=(warning,)).splitlines()
    assert any(line.startswith("SMT  2 hardware threads") for line in lines)
    assert f"    → {warning.hint}" in lines


def test_an_emulated_machine_has_no_ceilings() -> None:
    """The report says why."""
    text = shown(machine=machine_with(emulator="qemu-user"), ceilings=None)
    assert "no ceilings: nothing is timed under an emulator" in text
    assert "emulated by qemu-user" in text


def test_unknown_facts_are_shown_as_unknown() -> None:
    """A machine that reports little can still be shown."""
    bare = machine_with(caches=(), governor=None, mhz=None, max_mhz=None, allocator=None, memory=None, sockets=None)
    rows = dict(machine_rows(bare))
    assert rows["caches"] == rows["clock"] == rows["malloc"] == "unknown"
    assert "? sockets" in rows["cores"]
    assert rows["runs in"] == "bare metal"
    usage = dataclasses.replace(QUIET, other_cores=None, steal_percent=None)
    assert usage_rows(usage) == [("other load", "unknown in 2 s")]


def test_the_surroundings_are_named() -> None:
    """Hypervisor, instance type and container are shown."""
    machine = machine_with(hypervisor="KVM", cloud="AWS", instance_type="c7g.4xlarge", container="docker")
    assert dict(machine_rows(machine))["runs in"] == "KVM virtual machine (c7g.4xlarge), docker container"
    metal = machine_with(cloud="AWS", instance_type="c7g.metal")
    assert dict(machine_rows(metal))["runs in"] == "bare metal (c7g.metal)"


def test_libraries_are_listed() -> None:
    """Packages, backends, loaded libraries and the evidence for ACL are shown."""
    rows = dict(library_rows(LIBRARIES))
    assert rows["packages"] == "torch 2.10.0, torchvision 0.25.0"
    assert rows["backends"] == "onednn+acl, openblas"
    assert rows["loaded"] == "torch: openmp × 8"
    assert rows["ACL"] == "libarm_compute.so comes with torch"

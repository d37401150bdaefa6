"""What ``modelzoo doctor`` prints."""

from __future__ import annotations

import re

import pytest
from example_machine import CEILINGS, LIBRARIES, QUIET, SERVER, TWO_CORES, machine_with
from printed import printed

from modelzoo.frozen import replace
from modelzoo.records.doctor import DoctorReport
from modelzoo.records.profile import UnavailableProduct
from modelzoo.views.doctor import document, machine_rows

REPORT = DoctorReport(
    machine=SERVER, libraries=LIBRARIES, usage=QUIET, ceilings=CEILINGS, ceilings_kept=False, warnings=()
)


def shown(**changes: object) -> str:
    """Return what is printed for a good machine with ``changes`` to the report."""
    return printed(document(replace(REPORT, **changes)))  # type: ignore[arg-type]


def test_ceilings_that_were_measured_beside_other_programs_are_not_kept() -> None:
    """Their origin says so; and a good machine has nothing to mend."""
    assert "not kept: other programs used 1.50 cores" in shown(ceilings=replace(TWO_CORES, other_cores=1.5))
    assert "found nothing that would distort a result" in shown()


def test_a_product_that_this_cpu_refuses_is_named() -> None:
    """With torch's reason, and with a row of its own among the others."""
    refused = UnavailableProduct("bf16", "conv", "bf16 path needs the cpu support avx512bw")
    text = shown(ceilings=replace(TWO_CORES, unavailable=(refused,)))
    assert "bf16 conv: not available on this CPU (bf16 path needs the cpu support avx512bw)" in text
    assert "bf16 conv, GFLOP/s" in text


def test_unknown_facts_are_shown_as_unknown() -> None:
    """A machine that reports little can still be shown."""
    bare = machine_with(caches=(), governor=None, mhz=None, max_mhz=None, allocator=None, memory=None, sockets=None)
    rows = dict(machine_rows(bare))
    assert rows["caches"] == rows["clock"] == rows["malloc"] == "unknown"
    assert "? sockets" in rows["cores"]
    assert re.search("other load +unknown in 2 s", shown(usage=replace(QUIET, other_cores=None, steal_percent=None)))


def test_the_surroundings_are_named() -> None:
    """Hypervisor, instance type and container are shown."""
    machine = machine_with(hypervisor="KVM", cloud="AWS", instance_type="c7g.4xlarge", container="docker")
    assert dict(machine_rows(machine))["runs in"] == "KVM virtual machine (c7g.4xlarge), docker container"


@pytest.mark.parametrize(
    ("count", "quota", "limit"),
    [
        (8, 2.5, "physical cores"),
        (16, None, "CPU affinity"),
        (2, 2.5, "the control group's quota of 2.5 CPUs"),
        (1, None, "unknown"),
    ],
)
def test_the_limit_of_the_threads_follows_from_the_numbers(count: int, quota: float | None, limit: str) -> None:
    """What does not follow from those of a stored result is unknown, and no traceback."""
    threads = replace(SERVER.threads, count=count, physical_cores=8, affinity=16, quota=quota)
    assert dict(machine_rows(replace(SERVER, threads=threads)))["threads"] == f"{count} by default (limit: {limit})"

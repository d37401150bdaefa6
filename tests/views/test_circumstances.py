"""What ``modelzoo doctor`` prints."""

from __future__ import annotations

import re
from collections.abc import Callable

from example_machine import CEILINGS, LIBRARIES, QUIET, SERVER, TWO_CORES, machine_with
from printed import printed

from modelzoo.frozen import replace
from modelzoo.records.profile import DoctorReport, UnavailableProduct
from modelzoo.views.circumstances import document, machine_rows

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


def test_little_may_be_known_of_a_machine(approved: Callable[[str, str], None]) -> None:
    """It is shown; what does not follow from the numbers of a stored result is unknown, and no traceback."""
    bare = machine_with(caches=(), governor=None, mhz=None, max_mhz=None, allocator=None, memory=None, sockets=None)
    guest = machine_with(hypervisor="KVM", cloud="AWS", instance_type="c7g.4xlarge", container="docker")
    threads = [
        replace(SERVER, threads=replace(SERVER.threads, count=count, physical_cores=8, affinity=16, quota=quota))
        for count, quota in ((8, 2.5), (16, None), (2, 2.5), (1, None))
    ]
    said = [f"{name}: {value}" for name, value in machine_rows(bare)]
    said += [dict(machine_rows(guest))["runs in"], *(dict(machine_rows(each))["threads"] for each in threads)]
    approved("said/machines.txt", "".join(f"{each}\n" for each in said))
    assert re.search("other load +unknown in 2 s", shown(usage=replace(QUIET, other_cores=None, steal_percent=None)))

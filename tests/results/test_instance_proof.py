"""Whether instances ran as was planned."""

from __future__ import annotations

import pytest
from instances import configuration, ran, result
from instances import placement as placed

from modelzoo.frozen import replace
from modelzoo.records.machine import Placement
from modelzoo.results import throughput
from modelzoo.results.instance_proof import InstanceKernels, kernels, placement


def test_the_proof_is_of_every_instance() -> None:
    """Kernels as audited, own CPUs, memory on their node; otherwise it is said of how many."""
    own = configuration(2)
    run = ran(0, own, 0, [0.1, 0.1])
    found = result([own], [run])
    (row,) = throughput.rows(found)
    assert kernels(found, row) == InstanceKernels(2, False)
    proven = placement(throughput.of(found), row)
    assert (proven.instances, proven.elsewhere, proven.unproven) == (2, 0, ())
    first, second = run.instances
    far = replace(second, placement=placed(second.place, elsewhere=400_000))
    found = result([own], [replace(run, instances=(first, far))])
    unproven = placement(throughput.of(found), row)
    assert [each.local_share for each in unproven.unproven] == [pytest.approx(0.6)]
    lost = replace(second, placement=Placement((3,), (0,)))
    found = result([own], [replace(run, instances=(first, lost))])
    elsewhere = placement(throughput.of(found), row)
    assert elsewhere.elsewhere == 1

"""Whether instances ran as was planned."""

from __future__ import annotations

from instances import configuration, placement, ran, result

from modelzoo.frozen import replace
from modelzoo.records.topology import Placement
from modelzoo.results import throughput
from modelzoo.results.instance_proof import kernels_sentence, placement_sentence


def test_the_proof_is_of_every_instance() -> None:
    """Kernels as audited, own CPUs, memory on their node; otherwise it is said of how many."""
    own = configuration(2)
    run = ran(0, own, 0, [0.1, 0.1])
    found = result([own], [run])
    (row,) = throughput.rows(found)
    assert kernels_sentence(found, row) == "it is not known which kernels the instances ran"
    assert placement_sentence(throughput.of(found), row).endswith("with its memory there (proven by numa_maps)")
    first, second = run.instances
    far = replace(second, placement=placement(second.place, elsewhere=400_000))
    found = result([own], [replace(run, instances=(first, far))])
    assert (
        placement_sentence(throughput.of(found), row)
        == "placement unproven for 1 of 2 instances: 60% of its memory was on its node"
    )
    lost = replace(second, placement=Placement((3,), (0,)))
    found = result([own], [replace(run, instances=(first, lost))])
    assert placement_sentence(throughput.of(found), row).startswith("1 of 2 instances did not run on the CPUs")

"""Stored facts about machines; ``test_doctor.py`` covers writing and reading them."""

from __future__ import annotations

from example_machine import QUIET, SERVER

from modelzoo.records.codec import decode, encode
from modelzoo.records.machine import CpuUsage, Machine


def test_facts_that_were_not_recorded_are_unknown() -> None:
    """Nothing is guessed."""
    machine = encode(SERVER)
    for name in ("cloud", "instance_type", "vcpus_per_core", "niceness"):
        del machine[name]
    del machine["threads"]["cpus_allowed"]
    read = decode(Machine, machine)
    assert (read.cloud, read.instance_type, read.vcpus_per_core, read.threads.cpus_allowed) == (None,) * 4
    assert read.niceness is None
    usage = encode(QUIET)
    del usage["frequency"]
    assert decode(CpuUsage, usage).frequency is None

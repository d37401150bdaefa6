"""The process of the reference load."""

from __future__ import annotations

import time

import psutil

from modelzoo.measure.rounds import Reference


def workers() -> set[psutil.Process]:
    """Those of this process."""
    return {child for child in psutil.Process().children() if "modelzoo.measure.worker" in child.cmdline()}


def test_turns_are_taken_on_demand_and_the_process_is_suspended_in_between() -> None:
    """Nothing of it runs while workers sample."""
    others = workers()
    with Reference(1) as reference:
        first, second = reference.turn(), reference.turn()
        assert first is not None
        assert second is not None
        assert first.end <= second.start
        (child,) = workers() - others
        deadline = time.monotonic() + 10
        while child.status() != psutil.STATUS_STOPPED:
            assert time.monotonic() < deadline, child.status()
    assert not child.is_running()


def test_threads_are_those_that_ran() -> None:
    """As many as asked for, or the most that numpy's BLAS was built for, which the turns say."""
    with Reference(2) as reference:
        taken = reference.turn()
        assert taken is not None and taken.threads == reference.ran == 2
        assert not reference.is_narrow
        reference.threads = 128
        assert reference.is_narrow


def test_a_load_that_was_killed_ends_without_an_error() -> None:
    """The measurement goes on without it, and says why."""
    others = workers()
    with Reference(1) as reference:
        (child,) = workers() - others
        child.kill()
        assert reference.turn() is None
        assert reference.turn() is None
        assert reference.problem is not None
        assert "SIGKILL" in reference.problem

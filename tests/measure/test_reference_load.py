"""The reference load itself."""

from __future__ import annotations

from modelzoo.measure import reference_load


def test_a_turn_has_a_time_of_one_pass_and_its_own_length() -> None:
    """The median of several passes; the turn contains them."""
    calls = []
    turn = reference_load.take(lambda: calls.append(1))
    assert len(calls) > reference_load.MIN_PASSES
    assert 0 < turn.seconds < turn.end - turn.start
    # The difference of two times since 1970 is rounded to a fraction of a microsecond.
    assert turn.end - turn.start >= reference_load.TURN_SECONDS - 1e-6
    assert turn.version == reference_load.VERSION


def test_a_pass_computes_a_layer() -> None:
    """The load does real work and can be repeated."""
    once = reference_load.load()
    once()
    once()

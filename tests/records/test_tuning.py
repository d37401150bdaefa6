"""The record of a search."""

from __future__ import annotations

from modelzoo.records.tuning import Exclusion, ExclusionKind, Goal, Stage, StageKind, Tuning

TUNING = Tuning("toy", Goal.LATENCY, 60.0, 4)
OUT = Exclusion(2, ExclusionKind.FAILED)


def test_a_candidate_that_is_out_stays_out_for_its_first_reason() -> None:
    """Whatever is found later."""
    later = Exclusion(2, ExclusionKind.SLOWER)
    found = TUNING.excluding(OUT).excluding(later, Exclusion(3, ExclusionKind.SLOWER))
    assert found.excluded[0] == OUT
    assert found.open() == (1,)


def test_stages_are_found_by_their_kind() -> None:
    """The first one of each."""
    first, second = (Stage(StageKind.SEARCH, (0, 1), 1, 2.0, number) for number in (1, 2))
    found = TUNING.plus_stage(first).plus_stage(second)
    assert found.stage(StageKind.SEARCH) == first
    assert found.stage(StageKind.CONFIRMATION) is None

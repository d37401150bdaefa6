"""What a stored search says: speeds in the search, the confirmation, and the steps to the winner."""

from __future__ import annotations

import pytest
from stored_search import SETTINGS, STAGES, TUNING, process, searched

from modelzoo.frozen import replace
from modelzoo.records.race import StageKind
from modelzoo.results import tuning
from modelzoo.stats import Doubt
from modelzoo.stats.race import Choice


def test_a_stage_without_time_takes_nothing_from_the_confirmation() -> None:
    """It begins where the confirmation does, and counted its rounds as those of the search."""
    *earlier, confirmation = STAGES
    empty = replace(confirmation, kind=StageKind.SEARCH)
    found = searched(stages=(*earlier, empty, confirmation))
    assert tuning.runs_of(found, empty) == []
    assert tuning.candidates(found) == tuning.candidates(searched())


def test_an_interrupted_confirmation_is_judged_only_if_all_of_its_rounds_ended() -> None:
    """Of four planned rounds: three that look clear give no verdict, four do; a search that ran out of time has one."""
    all_rounds = searched(is_complete=False)
    three = replace(all_rounds, runs=tuple(run for run in all_rounds.runs if run.round < 6))
    assert tuning.is_faster(all_rounds)
    assert not tuning.is_faster(three)
    speed = tuning.confirmed(three)
    assert (speed.verdict.doubt, speed.verdict.rounds) == (Doubt.FEW_ROUNDS, 3)
    assert tuning.is_faster(replace(three, payload=TUNING))


def test_another_batch_size_is_compared_per_item() -> None:
    """The latency of the ladder is that of the batch."""
    runs = [process(0, 3, 1.0), process(1, 3, 4.0, batch=8)]
    chosen = replace(TUNING, choice=Choice(1, 1, (), (1,)))
    found = replace(searched(), runs=(*searched().runs[:8], *runs), payload=chosen)
    assert tuning.steps(found)[1].speed is not None
    assert tuning.steps(found)[1].speed.value == pytest.approx(2.0)
    assert tuning.steps(found)[1].latency.value == pytest.approx(4.0)


def test_a_search_without_a_confirmation_confirms_nothing() -> None:
    """Because nothing seemed faster, or because it was interrupted."""
    for changes in ({"choice": Choice(0, 1)}, {"choice": None}, {"stages": STAGES[:3]}):
        found = searched(**changes)
        assert tuning.confirmation(found) is None
        assert not tuning.is_faster(found)


def test_only_the_confirmation_says_how_fast_the_winner_is() -> None:
    """Its part of the result is one of its own, with the default as the baseline."""
    part = tuning.confirmation(searched())
    assert [requested.setting for requested in part.requested] == [SETTINGS[0], SETTINGS[2]]
    assert {run.round for run in part.runs} == {3, 4, 5, 6}

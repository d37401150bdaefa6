"""What a stored search says: speeds in the search, the confirmation, and the steps to the winner."""

from __future__ import annotations

import pytest
from stored_search import SETTINGS, STAGES, TUNING, process, searched

from modelzoo.frozen import replace
from modelzoo.records.race import StageKind
from modelzoo.records.run import Latency
from modelzoo.results import tuning
from modelzoo.stats import Doubt
from modelzoo.stats.race import Choice


def test_candidates_have_their_speed_in_the_search_alone() -> None:
    """The probe and the confirmation do not count; one round has no interval."""
    found = {each.group: each for each in tuning.candidates(searched())}
    assert [found[group].rounds for group in (1, 2, 3)] == [2, 2, 1]
    assert found[1].speed is not None
    assert found[1].speed.value == pytest.approx(2.5)
    assert found[3].exclusion is not None
    assert (found[1].is_tie, found[2].is_tie, found[3].is_tie) == (True, True, False)


def test_a_stage_without_time_takes_nothing_from_the_confirmation() -> None:
    """It begins where the confirmation does, and counted its rounds as those of the search."""
    *earlier, confirmation = STAGES
    empty = replace(confirmation, kind=StageKind.SEARCH)
    found = searched(stages=(*earlier, empty, confirmation))
    assert tuning.runs_of(found, empty) == []
    assert tuning.candidates(found) == tuning.candidates(searched())


def test_only_the_confirmation_says_how_fast_the_winner_is() -> None:
    """Its part of the result is one of its own, with the default as the baseline."""
    part = tuning.confirmation(searched())
    assert part is not None
    assert [requested.setting for requested in part.requested] == [SETTINGS[0], SETTINGS[2]]
    assert {run.round for run in part.runs} == {3, 4, 5, 6}
    speed = tuning.confirmed(searched())
    assert speed is not None
    assert speed.ratio is not None
    assert speed.ratio.value == pytest.approx(2.51, abs=0.01)
    assert tuning.is_faster(searched())


def test_an_interrupted_confirmation_is_judged_only_if_all_of_its_rounds_ended() -> None:
    """Of four planned rounds: three that look clear give no verdict, four do; a search that ran out of time has one."""
    all_rounds = searched(is_complete=False)
    three = replace(all_rounds, runs=tuple(run for run in all_rounds.runs if run.round < 6))
    assert tuning.is_faster(all_rounds)
    assert not tuning.is_faster(three)
    speed = tuning.confirmed(three)
    assert speed is not None
    assert (speed.verdict.doubt, speed.verdict.rounds) == (Doubt.FEW_ROUNDS, 3)
    assert tuning.is_faster(replace(three, payload=TUNING))


def test_the_ladder_has_the_gain_of_each_step() -> None:
    """Over the default, and over the step before, from the same rounds."""
    first, second, third = tuning.steps(searched())
    assert (first.speed, first.gain) == (None, None)
    assert second.speed is not None
    assert second.speed == second.gain
    assert third.gain is not None
    assert third.gain.value == pytest.approx(1.26, abs=0.01)
    assert third.latency.value == pytest.approx(0.4, rel=0.01)


def test_another_batch_size_is_compared_per_item() -> None:
    """The latency of the ladder is that of the batch."""
    runs = [process(0, 3, 1.0), process(1, 3, 4.0, batch=8)]
    chosen = replace(TUNING, choice=Choice(1, 1, (), (1,)))
    found = replace(searched(), runs=(*searched().runs[:8], *runs), payload=chosen)
    assert tuning.steps(found)[1].speed is not None
    assert tuning.steps(found)[1].speed.value == pytest.approx(2.0)  # type: ignore[union-attr]
    assert tuning.steps(found)[1].latency.value == pytest.approx(4.0)


def test_a_search_without_a_confirmation_confirms_nothing() -> None:
    """Because nothing seemed faster, or because it was interrupted."""
    for changes in ({"choice": Choice(0, 1)}, {"choice": None}, {"stages": STAGES[:3]}):
        found = searched(**changes)
        assert tuning.confirmation(found) is None
        assert not tuning.is_faster(found)


def test_an_ordinary_result_holds_no_search() -> None:
    """It is a mistake of the caller."""
    with pytest.raises(ValueError, match="holds no search"):
        tuning.of(replace(searched(), payload=Latency()))

"""The stages of a search, what processes cost, and how time is divided among them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from fake_runs import make

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.run import Run
from modelzoo.setting import Setting
from modelzoo.stats import race
from modelzoo.tuning import decisions
from modelzoo.tuning.decisions import COMPILED, costs


def test_a_budget_that_cannot_suffice_is_refused() -> None:
    """By what starting the processes takes, before anything is started."""
    with pytest.raises(UsageError, match="--budget 60s is too short: a search of 40 settings starts at least 49"):
        decisions.check(60.0, 40)
    decisions.check(98.0, 40)


def test_stages_share_the_time_of_the_search_and_the_confirmation_has_what_is_left() -> None:
    """Fewer candidates are measured more often, within limits; fewer than two rounds of a confirmation say nothing."""
    assert decisions.stage_rounds([10.0] * 10, stages=3, left=700.0) == 2
    assert decisions.stage_rounds([10.0] * 5, stages=3, left=700.0) == 4
    assert decisions.stage_rounds([10.0] * 40, stages=3, left=700.0) == 1
    assert decisions.stage_rounds([0.1], stages=1, left=700.0) == decisions.MOST_ROUNDS
    found = [decisions.confirmation_rounds([10.0, 10.0], left) for left in (100.0, 1000.0, 30.0)]
    assert found == [5, decisions.CONFIRMATION_ROUNDS[1], 0]


EAGER, COMPILE = Setting(), Setting(mode="compile")


def run(group: int, number: int, seconds: int, setting: Setting = EAGER, **changes: Any) -> Run:
    """A process that begins at midnight and takes ``seconds``."""
    made = make([0.1], setting=setting, group=group, round=number, **changes)
    return replace(made, ended=f"2026-01-01T00:00:{seconds:02d}+00:00")


def test_the_wall_time_of_a_round_is_divided_among_its_processes() -> None:
    """Everyone bears its own compiling; what is left is shared. The latest process counts: later ones have a cache.

    A setting that has not run costs as much as those of its mode; without any, a multiple of the default's.
    """
    assert costs([], [EAGER]) == [0.0]
    assert costs([run(0, 0, 40), run(0, 1, 10)], [EAGER]) == pytest.approx([10.0])
    runs = [run(0, 0, 10), run(1, 0, 30, COMPILE, compile_seconds=20.0)]
    assert costs(runs, [EAGER, COMPILE]) == pytest.approx([5.0, 25.0])
    settings = [EAGER, EAGER.replace(threads=2), COMPILE, COMPILE.replace(channels_last=True)]
    runs = [run(0, 0, 10)]
    assert costs(runs, settings) == [10.0, 10.0, 10.0 * COMPILED, 10.0 * COMPILED]
    runs.append(run(2, 1, 30, COMPILE))
    assert costs(runs, settings)[3] == pytest.approx(30.0)


@pytest.mark.parametrize("count", range(1, 40))
def test_every_stage_has_about_half_of_the_candidates(count: int) -> None:
    """The first has all, the last a few; a small grid has two stages as well."""
    sizes = race.sizes(count)
    assert sizes[0] == count
    assert sizes[-1] <= race.FINALISTS
    assert len(sizes) > 1
    assert all(after == math.ceil(before / 2) or before == after for before, after in itertools.pairwise(sizes))


def test_candidates_are_ranked_by_their_mean() -> None:
    """The geometric mean of the ratios; those without times are left out."""
    logs = {1: {0: 0.1, 1: 0.1}, 2: {0: 0.5}, 3: {}, 4: {0: -0.2}}
    assert race.ranked(logs) == [2, 1, 4]
    assert race.speed(logs[1]) == pytest.approx(math.exp(0.1))

"""What a search found, for people."""

from __future__ import annotations

import pytest
from stored_search import SETTINGS, STAGES, TUNING, process, searched

from modelzoo.frozen import replace
from modelzoo.records.tuning import Choice, Exclusion, ExclusionKind, LeftOut
from modelzoo.report import tuning
from modelzoo.results import tuning as results


def test_the_answer_is_one_sentence() -> None:
    """With the ratio of the confirmation and its interval."""
    said = tuning.headline(searched())
    assert said.startswith("the fastest is fp32 compile channels-last: 2.512× [")
    assert said.endswith("the speed of the default, measured again in new processes")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"choice": Choice(0, 1)}, "nothing is faster here than the default, fp32: the fastest of 3 candidates"),
        ({"choice": None}, "the search was interrupted before anything was chosen; --resume goes on with it"),
        ({"stages": STAGES[:3]}, "but there was no time to measure it again: give a larger --budget"),
    ],
)
def test_other_answers(changes: dict[str, object], expected: str) -> None:
    """Nothing is faster, an interruption, and a budget that was too short."""
    assert expected in tuning.headline(searched(**changes))


def test_a_winner_that_is_not_confirmed_is_no_winner() -> None:
    """It seemed to be faster."""
    runs = [run for run in searched().runs if run.round < 3]
    for number in range(3, 7):
        runs += [process(0, number, 1.0), process(2, number, 1.0 + 0.1 * (-1) ** number)]
    found = replace(searched(), runs=tuple(runs))
    said = tuning.headline(found)
    assert said.startswith("nothing is proven to be faster here than the default, fp32: fp32 compile channels-last")
    assert "which is AMBIGUOUS (this may be chance" in said
    assert tuning.winning_report(found) == found.runs[-2].report, "the default's last process"
    assert tuning.speed_sentence(found) == "the default: nothing was proven to be faster on this machine"


def test_ties_are_named() -> None:
    """And why one of them wins."""
    assert tuning.ties(searched()) == "ties: the search could not tell fp32 compile from fp32 compile channels-last"
    simplest = searched(choice=Choice(1, 2, (1,), (1,)))
    assert tuning.ties(simplest).endswith(
        "could not tell fp32 compile channels-last from fp32 compile, which is the simplest of those that seem as fast"
    )
    assert tuning.ties(searched(choice=Choice(2, 2, (), (1, 2)))) == ""


def test_candidates_are_listed_by_their_speed_with_the_reason_of_those_that_are_out() -> None:
    """One round has no interval, which says so. What was not measured is not in the table."""
    wrong = Exclusion(1, ExclusionKind.WRONG_OUTPUTS, "mean error 1e-2")
    found = results.candidates(searched(excluded=(*TUNING.excluded, wrong)))
    late = [
        replace(found[0], label=label, speed=None, rounds=0, exclusion=Exclusion(9, ExclusionKind.NOT_MEASURED, "late"))
        for label in ("fp32 a", "fp32 b")
    ]
    columns = tuning.candidate_columns([*late, *found])
    rows = list(zip(*(column.cells for column in columns)))
    assert [row[0] for row in rows] == [SETTINGS[group].label for group in (1, 2, 3)]
    assert rows[0][3] == "wrong outputs"
    assert rows[1][3] == "tie"
    assert rows[2][1:] == ("1", "0.80×", "slower")
    assert tuning.excluded_lines([*late, *found]) == [
        "not measured (late): fp32 a, fp32 b",
        f"wrong outputs (mean error 1e-2): {SETTINGS[1].label}",
    ]


def test_the_ladder_shows_each_step() -> None:
    """With its gain over the step before."""
    rows = list(zip(*(column.cells for column in tuning.ladder_columns(results.ladder(searched())))))
    assert rows[0][0] == "fp32"
    assert rows[0][2:] == ("–", "–")
    assert rows[2][0] == "fp32 compile channels-last"
    assert rows[2][3].startswith("1.262× [")


def test_what_was_left_out_is_said_once_per_reason() -> None:
    """Several options may share one."""
    left_out = (LeftOut("thp=on", "off"), LeftOut("malloc=tcmalloc", "missing"), LeftOut("malloc=jemalloc", "missing"))
    assert tuning.left_out_lines(searched(left_out=left_out)) == [
        "thp=on: off",
        "malloc=tcmalloc, malloc=jemalloc: missing",
    ]


def test_the_caption_says_what_was_searched() -> None:
    """How many candidates, in which stages and how much time."""
    assert tuning.caption(searched()) == (
        "3 candidates for the lowest latency of one batch; stages with 3, 2 candidates; 5 min of 10 min"
    )

"""The plot of the steps to the winner of a search."""

from __future__ import annotations

from stored_search import STAGES, process, searched

from modelzoo.frozen import replace
from modelzoo.records.tuning import Choice
from modelzoo.report.plots import forest, ladder


def test_each_step_is_compared_with_the_one_before() -> None:
    """And the last with the default."""
    data = ladder.of_result(searched())
    assert [row.label for row in data.rows] == [
        "fp32 compile / fp32",
        "fp32 compile channels-last / fp32 compile",
        "fp32 compile channels-last / fp32",
    ]
    assert [row.verdict for row in data.rows] == ["FASTER", "FASTER", "FASTER"]
    assert "fp32 compile channels-last / fp32 compile" in forest.svg(data, "steps")


def test_a_single_step_is_not_repeated() -> None:
    """It is the whole way."""
    data = ladder.of_result(searched(choice=Choice(1, 1, (), (1,))))
    assert [row.label for row in data.rows] == ["fp32 compile / fp32"]


def test_a_step_may_bring_nothing_or_cost_something() -> None:
    """What the interval alone says."""
    runs = [run for run in searched().runs if run.round < 3]
    for number in range(3, 7):
        noise = 1 + 0.001 * (number % 2)
        runs += [process(0, number, 1.0), process(1, number, noise), process(2, number, 1.2 * noise)]
    data = ladder.of_result(replace(searched(), runs=tuple(runs)))
    assert [row.verdict for row in data.rows] == ["SAME", "SLOWER", "SLOWER"]


def test_without_a_confirmation_there_is_no_plot() -> None:
    """Nothing was measured again."""
    assert ladder.of_result(searched(stages=STAGES[:3])).rows == ()

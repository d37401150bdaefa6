"""How unsteady the machine was, from the samples of the settings themselves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fake_runs import make, result_of

from modelzoo.records.run import Run, Turn
from modelzoo.results import summary
from modelzoo.results.noise import noise, variation
from modelzoo.views.findings import headline


def process(*levels: float, round: int = 0, samples: int = 6) -> Run:
    """A process with a turn at each of these levels (seconds), in each of which it took so many samples."""
    turns = tuple(Turn(float(number), number + 0.5, samples) for number in range(len(levels)))
    steady = [level * (1 + 0.001 * number) for level in levels for number in range(samples)]
    return make(steady, round=round, turns=turns)


STEADY = [process(1.0, 1.01, 0.99, round=number) for number in range(4)]
SEVENFOLD = [process(*(1.0 if number < 4 else 7.0,) * 3, round=number) for number in range(8)]


def said(runs: Sequence[Run]) -> str:
    """The headline."""
    return str(headline(summary.rows(result_of(*runs))).items[0].text)


def test_a_run_that_spread_sevenfold_says_so() -> None:
    """Half of the processes take seven times as long; what varies within a process is seen with a single one."""
    assert variation(SEVENFOLD) == pytest.approx(6.0, rel=0.01)
    assert said(SEVENFOLD).endswith("; NOISY MACHINE: speed varied by 600 %, treat as indicative")
    assert said([process(*[1.0, 1.5] * 4)]).endswith("; NOISY MACHINE: speed varied by 50 %, treat as indicative")


def test_a_steady_machine_is_not_spoken_of() -> None:
    """Turns that differ by 2 %; and a single outlier of a turn, or a single slow turn of many, is no speed."""
    assert variation(STEADY) == pytest.approx(1.01 / 0.99 - 1, rel=0.01)
    assert noise(summary.rows(result_of(*STEADY))) is None
    assert "NOISY" not in said(STEADY)
    once = [*STEADY, process(*[1.0] * 20, 9.0, round=4)]
    assert "NOISY" not in said(once)


def test_nothing_is_said_where_nothing_is_known() -> None:
    """Three turns; eight samples; four samples without turns; none. A damaged result counts more than it has."""
    damaged = make([1.0, 1.0], turns=process(*[1.0] * 8).report.turns)
    few = process(1.0, 2.0, 3.0), process(*[1.0, 2.0] * 4, samples=1), make([1.0, 7.0, 1.0, 7.0])
    for runs in ([], *([each] for each in (*few, make(None, error="died"), damaged))):
        assert variation(runs) is None


def test_short_turns_are_taken_together() -> None:
    """Turns of two samples: three of them are a stretch, and five stretches are enough."""
    assert variation([process(*[1.0] * 15, samples=2)]) == pytest.approx(0, abs=0.01)
    assert variation([process(*[1.0] * 14, samples=2)]) is None

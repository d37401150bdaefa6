"""benchmarks/comparisons.py: its simulated data have the truth that it claims, and its usual tests their level."""

from __future__ import annotations

from typing import Any

import comparisons
import numpy as np
import pytest

from modelzoo.comparison.model import Outcome
from modelzoo.frozen import replace


@pytest.mark.parametrize("draw", comparisons.DISTRIBUTIONS)
def test_all_distributions_have_the_same_mean_and_spread(draw: Any) -> None:
    """Mean 0 and standard deviation 1, so only their shape differs."""
    values = draw(np.random.default_rng(0), (100_000,))
    assert (values.mean(), values.std()) == (pytest.approx(0, abs=0.02), pytest.approx(1, abs=0.02))


def test_sessions_shift_all_rows_of_a_side_alike() -> None:
    """Each side has a shift of its own, which its rows share."""
    apart = replace(comparisons.KINDS[2], between=0.5)
    rows = comparisons.simulate(np.random.default_rng(0), apart, comparisons.normal, 4)
    levels = np.log([[np.median(row.base), np.median(row.other)] for row in rows])
    differences = levels[:, 0] - levels[:, 1]
    assert abs(differences[0]) > 0.1
    assert differences == pytest.approx([differences[0]] * 4, abs=0.05)


def test_interleaved_rounds_slow_down_both_sides_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that gets slower by a factor of e leaves the ratios of the rounds alone."""
    monkeypatch.setattr(comparisons, "DRIFT", 1.0)
    (row,) = comparisons.simulate(np.random.default_rng(0), comparisons.INTERLEAVED, comparisons.normal, 1)
    base, other = np.log(np.median(row.base[0], axis=1)), np.log(np.median(row.other[0], axis=1))
    assert base[-1] - base[0] == pytest.approx(1, abs=0.15)
    assert (base - other).std() < 2 * comparisons.NOISE


def test_medians_of_processes_differ_as_much_as_claimed() -> None:
    """By 2 %, samples included, in every kind of comparison and without what sessions add."""
    generator = np.random.default_rng(3)
    for kind in (comparisons.INTERLEAVED, replace(comparisons.KINDS[1], between=0.0)):
        tables = [comparisons.simulate(generator, kind, comparisons.normal, 8) for _ in range(100)]
        medians = np.log([[np.median(row.base, axis=2) for row in rows] for rows in tables])
        if kind.interleaved:
            medians = medians - comparisons.DRIFT * np.linspace(0, 1, kind.processes)
        assert medians.std() == pytest.approx(comparisons.NOISE, rel=0.1)


def test_a_rank_test_by_hand() -> None:
    """1, 2, 3 against 4, 5, 6: U = 0, mean 4.5, variance 5.25, so z = -4 / 2.291 with the correction."""
    found = comparisons.rank_test(np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]))
    assert found == pytest.approx(0.0809, abs=1e-4)
    assert comparisons.rank_test(np.array([1.0, 4.0]), np.array([2.0, 3.0])) == 1


def test_usual_tests_hold_their_level_on_what_they_assume() -> None:
    """On independent samples and processes that are alike, p ≤ 0.1 in about a tenth of the rows."""
    generator = np.random.default_rng(1)
    rows = [comparisons.Row(*np.exp(0.02 * generator.standard_normal((2, 1, 8, 30))), np.zeros(0)) for _ in range(500)]
    for test in (comparisons.welch, comparisons.mann_whitney, comparisons.mann_whitney_of_medians):
        share = sum(test(row) <= 0.1 for row in rows) / len(rows)
        assert 0.06 < share < 0.14


def test_the_suite_judges_simulated_rows() -> None:
    """A factor of two is seen in every kind of comparison, and the same data against itself are never different."""
    judge, generator = comparisons.Judge(), np.random.default_rng(2)
    for kind in comparisons.KINDS:
        (row,) = comparisons.simulate(generator, kind, comparisons.normal, 1)
        assert judge.table(kind, [comparisons.faster_by(row, 2.0)]) == [Outcome.FASTER]
        assert judge.table(kind, [comparisons.faster_by(row, 0.5)]) == [Outcome.SLOWER]
        equal = judge.table(kind, [replace(row, other=row.base)])
        assert equal[0] in (Outcome.SAME, Outcome.AMBIGUOUS)


def test_all_methods_and_kinds_are_printed(capsys: Any) -> None:
    """One line for each kind and distribution in both tables, and the claims below."""
    code = comparisons.main(["--tables", "2"])
    out = capsys.readouterr().out
    assert code in (0, 1)
    assert out.count("interleaved, skewed") == 2
    assert all(name in out for name in comparisons.USUAL)
    assert out.count("interleaved: ") == 2


def test_claims_are_made_from_the_counts_of_all_distributions() -> None:
    """2 % of 200 tables is the limit; the assumed spread must not find 5 %, and must find a factor of two."""
    several = [comparisons.Counts(100, {"modelzoo": n}, {"modelzoo": 95}, twice=95) for n in (1, 3)]
    assert [claim.holds for claim in comparisons.claims(comparisons.INTERLEAVED, several)] == [True, True]
    worse = [*several, comparisons.Counts(100, {"modelzoo": 3}, {"modelzoo": 94}, twice=94)]
    assert [claim.holds for claim in comparisons.claims(comparisons.INTERLEAVED, worse)] == [False, False]
    assert [claim.holds for claim in comparisons.claims(comparisons.ASSUMED, several)] == [True, False, True]
    few = next(kind for kind in comparisons.KINDS if kind.processes == 3)
    assert len(comparisons.claims(few, several)) == 1

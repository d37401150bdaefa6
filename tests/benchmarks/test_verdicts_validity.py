"""benchmarks/verdicts_validity.py: worlds lose what they say, promises are replayed, a broken rule is detected."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import verdicts_validity as verdicts
from promises import Promise, Replayed

from modelzoo.records.validity import Check, ValidityVerdict
from modelzoo.validity import bounds
from modelzoo.validity.rows import column, mean


def test_the_worlds_lose_what_they_say() -> None:
    """On large sets, where it is seen."""
    random = np.random.default_rng(0)
    pictures = verdicts.classified(random, 40_000, 0.05, 0.05, kl=0.01)
    assert mean(pictures, "top1_tested") / mean(pictures, "top1_reference") == pytest.approx(0.95, abs=0.01)
    assert mean(pictures, "kl") == pytest.approx(0.01, rel=0.2)
    questions = verdicts.answered(random, 8000, 0.04, 0.02, 0.05)
    means = [mean(questions, f"f1_{side}") for side in ("reference", "tested")]
    assert means[0] == pytest.approx(verdicts.MEAN_F1, abs=0.02)
    assert means[1] / means[0] == pytest.approx(0.96 * 0.93 + 0.05, abs=0.02)
    assert len(questions) > 3 * 8000
    for crowded in (False, True):
        found = verdicts.detected(random, 8000, lost=0.1, crowded=crowded, iou=0.95, bias=0.01, drift=0.02)
        assert mean(found, "common") / mean(found, "objects") == pytest.approx(0.9, abs=0.02)
        assert mean(found, "box_iou") == pytest.approx(0.95, abs=0.003)
        assert np.mean(column(found, "edge_shifts")[::4]) == pytest.approx(0.01, abs=0.001)
        assert np.median(column(found, "score_drift")) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("promise", verdicts.PROMISES, ids=lambda promise: promise.text)
def test_every_promise_can_be_replayed(promise: Promise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two repetitions do not contradict it."""
    monkeypatch.setattr(verdicts, "rate_of", lambda loss, by_picture: loss)
    monkeypatch.setattr(verdicts, "reference_ap", lambda: 0.6)
    found = promise.replay(np.random.default_rng(0), 2)
    assert found.trials == 2
    assert promise.is_least or not Replayed(promise, found).problem


def test_a_verdict_by_the_observed_value_is_detected() -> None:
    """VALID if the observed ratio is within its limit: in half of the sets, although the loss is beyond it."""

    def observed(random: np.random.Generator) -> ValidityVerdict:
        pictures = verdicts.classified(random, 500, 0.0101)
        ratio = mean(pictures, "top1_tested") / mean(pictures, "top1_reference")
        passed = ratio >= 0.99
        check = Check("accuracy", ratio, ">=", 0.99, passed, None, undecided=not passed)
        return verdicts.verdict_of([check], 500)

    replay = partial(verdicts.count_verdicts, observed, ValidityVerdict.VALID)
    broken = Promise("validate", "", "VALID", verdicts.WRONG, replay)
    assert Replayed(broken, replay(np.random.default_rng(0), 60)).problem


def test_an_interval_without_the_added_cluster_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is said to be possible but what was observed."""
    monkeypatch.setattr(bounds, "typical_size", lambda sizes: 1e-9)
    counted = verdicts.count_unseen(
        partial(verdicts.changed_accuracy, pictures=32, loss=0.05), np.random.default_rng(0), 60
    )
    promise = next(each for each in verdicts.PROMISES if each.event.startswith("larger loss"))
    assert Replayed(promise, counted).problem

"""Agreement of logits: properties that hold for all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from modelzoo.records.partial import ClassifiedPicture
from modelzoo.validity.classification import compare_logits, kl_divergence, rounding_step, softmax


def compared(p: np.ndarray, q: np.ndarray, bits: int | None = None) -> ClassifiedPicture:
    return compare_logits(0, "x", (p, q), None, bits)


LOGITS = arrays("float64", st.integers(5, 12), elements=st.floats(-30, 30))


@given(LOGITS)
def test_a_picture_agrees_with_itself(logits: np.ndarray) -> None:
    """The same logits on both sides: agreement, no divergence, no drift, no margin."""
    one = compared(logits, logits)
    assert one.agrees
    assert (one.kl, one.probability_change, one.margin, one.logit_error) == (0, 0, 0, 0)
    assert one.reference == one.tested


@given(LOGITS, st.floats(-50, 50))
def test_a_constant_added_to_all_logits_changes_nothing(logits: np.ndarray, constant: float) -> None:
    """Softmax ignores a common shift, and so do KL and the drift."""
    one = compared(logits, logits + constant)
    assert one.kl == pytest.approx(0, abs=1e-9)
    assert one.probability_change == pytest.approx(0, abs=1e-9)


@given(st.integers(5, 12).flatmap(lambda n: st.tuples(*[arrays("float64", n, elements=st.floats(-30, 30))] * 2)))
def test_divergence_bounds_the_change_of_a_probability(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Pinsker's inequality, the source of the KL threshold: no probability moves more than √(KL/2)."""
    one, (p, q) = compared(*pair), pair
    assert one.margin >= 0
    assert not one.agrees or one.margin == 0
    divergence = kl_divergence(p, q)
    assert divergence >= 0
    assert np.abs(softmax(p) - softmax(q)).max() <= np.sqrt(divergence / 2) + 1e-9


def test_a_flip_within_one_rounding_step_is_a_near_tie() -> None:
    """At 20 a bf16 step is 0.125: a lead of 0.1 is a tie in bf16, none in fp16 and fp32, and 0.2 is none."""
    for lead, bits, expected in (
        (0.1, 8, True),
        (0.1, 11, False),
        (0.01, 11, True),
        (0.1, None, False),
        (0.2, 8, False),
    ):
        p = np.array([20 + lead, 20.0, 0, 0, 0])
        q = np.array([20.0, 20 + lead, 0, 0, 0])
        one = compared(p, q, bits)
        assert not one.agrees
        assert one.margin == pytest.approx(lead)
        assert one.near_tie is expected


@given(st.floats(1e-30, 1e30))
def test_the_step_of_8_bits_is_the_distance_to_the_next_bf16_number(value: float) -> None:
    """Checked against torch's own bf16."""
    low = torch.tensor(value).to(torch.bfloat16)
    at = float(low)
    bits = low.view(torch.int16)
    following = float((bits + 1).view(torch.bfloat16))
    assert rounding_step(at, 8) == pytest.approx(following - at)

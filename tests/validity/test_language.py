"""Language models judged: the statistics, the verdicts, and what is a sample of what."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from validity.toys import judge

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.validity import LanguageModeling, Predictor, Validity, ValidityRequest
from modelzoo.validity.bounds import percentile_bounds
from modelzoo.validity.language import read_passages, scored

VOCABULARY = 32
TASK = LanguageModeling(tokenizer=lambda path: lambda text: [ord(each) % VOCABULARY for each in text], window=64)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """120 paragraphs of 50 to 79 random letters."""
    random = np.random.default_rng(0)
    paragraphs = ["".join(map(chr, random.integers(97, 123, 50 + number % 30))) for number in range(120)]
    (tmp_path / "text.txt").write_text("\n\n".join(paragraphs))
    return tmp_path / "text.txt"


def bigrams(noise: float = 0.0, shift: float = 0.0) -> Predictor:
    """The next token depends on the last one only; ``noise`` is added to the logits, and ``shift`` to one of them."""
    generator = torch.Generator().manual_seed(0)
    table = 3 * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
    table += noise * torch.randn(table.shape, generator=generator)
    table[:, 5] += shift
    name = "bf16" if noise or shift else "fp32"
    return Predictor(lambda ids: table[ids], name)


def judged(tested: Predictor, **request: Any) -> Validity:
    """Judge ``tested`` beside the model without noise."""
    return judge("llm", TASK, bigrams(), tested, ValidityRequest(batch=4, **request))


def test_statistics_are_those_of_llama_cpp() -> None:
    """Negative log-likelihood of each next token, divergence from fp32's distribution, and the same top token."""
    reference = np.log(np.array([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype="float32"))
    tested = np.log(np.array([[0.6, 0.3, 0.1], [0.3, 0.5, 0.2], [0.1, 0.1, 0.8]], dtype="float32"))
    # The logits of the last token predict nothing that is known.
    nll, divergences, same, _ = scored(reference, tested, [2, 0, 1])
    assert nll == pytest.approx((-math.log(0.7) - math.log(0.3), -math.log(0.6) - math.log(0.5)))
    first = 0.7 * math.log(0.7 / 0.6) + 0.2 * math.log(0.2 / 0.3)
    second = 0.5 * math.log(0.5 / 0.3) + 0.3 * math.log(0.3 / 0.5)
    assert divergences == pytest.approx((first, second), rel=1e-5)
    assert same == 1


def test_a_model_that_says_the_same_is_valid(text: Path) -> None:
    """Every token is predicted alike; 120 passages are enough."""
    found = judged(replace(bigrams(), precision="bf16"), data=str(text))
    assert (found.verdict, found.metric, found.items, found.cluster) == ("VALID", "perplexity", 120, "passage")
    assert found.reference == found.tested
    assert found.counts["positions"] == sum(50 + n % 30 - 1 - (50 + n % 30 > 64) for n in range(120))
    assert {each.name for each in found.checks} >= {"ln_perplexity_ratio", "token_kl", "token_kl_p99", "same_top"}
    (change,) = found.changes
    assert (change.metric, change.tested, change.allowed_loss) == ("same_top", 1.0, pytest.approx(0.05))


def test_rounding_is_small_and_a_fault_is_not_valid(text: Path) -> None:
    """Noise of 1 % of the logits keeps every statistic within its limit, noise of 30 % none of them."""
    assert judged(bigrams(noise=0.03), data=str(text)).verdict == "VALID"
    found = judged(bigrams(noise=1.0), data=str(text))
    assert (found.verdict, found.exit_code) == ("NOT VALID", 1)
    failed = {each.name for each in found.checks if not each.passed and not each.undecided}
    assert failed >= {"ln_perplexity_ratio", "token_kl", "token_kl_p99", "same_top"}
    assert found.shown.passages[0].mean_kl > found.shown.passages[-1].mean_kl > 0.01


def test_a_shift_shows_although_the_most_likely_tokens_stay(text: Path) -> None:
    """No statistic alone suffices."""
    found = judged(bigrams(shift=0.9), data=str(text))
    states = {each.name: each.passed for each in found.checks}
    assert states["token_kl"] is False
    assert found.verdict == "NOT VALID"
    assert found.figures["same_top"] > 0.8


def test_nan_is_never_valid(text: Path) -> None:
    """Nor can it be a reference."""
    broken = Predictor(lambda ids: torch.full((*ids.shape, VOCABULARY), math.nan))
    found = judged(broken, data=str(text))
    assert (found.verdict, found.shown) == ("NOT VALID", None)
    other = judge("llm", TASK, broken, bigrams(noise=0.03), ValidityRequest(data=str(text)))
    assert other.verdict == "CANNOT JUDGE"


def test_tokens_that_cannot_follow_are_no_fault() -> None:
    """Their logits are -inf in both models; a token of the text among them has no likelihood."""
    logits = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    logits[:, 5] = -np.inf
    _, divergences, same, finite = scored(logits, logits + np.float32(0.01) * (np.arange(6) == 1), [0, 1, 2, 3])
    assert (finite, same) == ((True, True), 3)
    assert 0 < max(divergences) < 1e-3
    _, divergences, _, finite = scored(logits, logits, [0, 1, 5, 3])
    assert (finite[0], divergences) == (False, ())
    other = np.where(np.isinf(logits), np.float32(-1e9), logits)
    for pair in ((logits, other), (other, logits)):
        assert not scored(*pair, [0, 1, 2, 3])[3][1]


def test_the_bounds_of_a_percentile_are_by_cluster() -> None:
    """A passage whose tokens are all off may be one of many or an accident; twice as many tokens change nothing."""
    values = [0.01] * 990 + [1.0] * 10
    alone = percentile_bounds(values, [n // 10 for n in range(1000)], 99, 0.95, 0.995)
    twice = percentile_bounds([v for v in values for _ in (0, 1)], [n // 20 for n in range(2000)], 99, 0.95, 0.995)
    assert alone == twice == (1.0, 0.01)
    uniform = percentile_bounds(list(np.linspace(0, 1, 5000)), [n % 100 for n in range(5000)], 99, 0.95, 0.995)
    assert 0.985 < uniform[1] < 0.99 < uniform[0] < 0.995


def test_passages_are_those_of_a_squad_file_and_of_a_text(tmp_path: Path) -> None:
    """Each paragraph once, however many questions it has; one of a single token has nothing to predict."""
    question = {"id": "1", "question": "?", "answers": [{"text": "a"}]}
    paragraphs = [{"context": each, "qas": [question] * 2} for each in ("one two", "three")]
    (tmp_path / "squad.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    assert [each.text for each in read_passages(tmp_path / "squad.json")] == ["one two", "three"]
    (tmp_path / "text.txt").write_text("\n\n \n\n")
    with pytest.raises(InputError, match="holds no text"):
        read_passages(tmp_path / "text.txt")
    (tmp_path / "text.txt").write_text("abc\n\nx")
    with pytest.raises(InputError, match="1 of 2 passages cannot be judged: passage 2 has fewer than two tokens"):
        judged(bigrams(noise=0.1), data=str(tmp_path / "text.txt"))

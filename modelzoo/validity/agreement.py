"""How two sets of logits over the same pictures agree. Pure numpy; logits are [N, C]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Guess:
    """One picture's outcome under both sides.

    Attributes:
        top: class indices of the five most likely classes, most likely first, for (reference, tested).
        probabilities: their probabilities (softmax), likewise.
        kl: KL divergence of tested from reference, in nats: Σ p·log(p/q).
        drift: largest change of a class's probability.
        margin: reference's logit of its own winner minus that of the tested's winner (0 where they agree).
        tie: whether ``margin`` is within one bf16 step of the winning logit.
        spread: norm of the difference of the centred logits ÷ norm of the reference's.
        finite: (reference, tested) free of NaN and Inf.
        label: the true class, or ``None``.
    """

    name: str
    top: tuple[tuple[int, ...], tuple[int, ...]]
    probabilities: tuple[tuple[float, ...], tuple[float, ...]]
    kl: float
    drift: float
    margin: float
    tie: bool
    spread: float
    finite: tuple[bool, bool]
    label: int | None

    @property
    def agrees(self) -> bool:
        """Whether both sides' first class is the same (never where one is not finite)."""
        return all(self.finite) and self.top[0][0] == self.top[1][0]


def bf16_step(value: float) -> float:
    """The distance between neighbouring bf16 numbers (8 significant bits) at ``value``."""
    import math

    return math.ldexp(1.0, math.frexp(value)[1] - 8) if value else 0.0


def softmax(logits: Any) -> Any:
    """Softmax over the last axis in double precision."""
    import numpy as np

    shifted = np.asarray(logits, dtype="float64")
    shifted = np.exp(shifted - shifted.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def kl_divergence(reference: Any, tested: Any) -> float:
    """KL(reference ‖ tested) of two logit vectors [C], in nats, never below 0."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in (reference, tested))
    log_p = p - p.max() - np.log(np.exp(p - p.max()).sum())
    log_q = q - q.max() - np.log(np.exp(q - q.max()).sum())
    return max(0.0, float((np.exp(log_p) * (log_p - log_q)).sum()))


def guess(name: str, reference: Any, tested: Any, label: int | None, ties: bool) -> Guess:
    """Compare two logit vectors [C] of one picture; ``ties`` allows near ties (bf16 under test)."""
    import numpy as np

    p, q = (np.asarray(x, dtype="float64") for x in (reference, tested))
    finite = (bool(np.isfinite(p).all()), bool(np.isfinite(q).all()))
    if not all(finite):
        empty: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
        return Guess(name, ((), ()), empty, float("nan"), float("nan"), 0.0, False, float("nan"), finite, label)
    count = min(5, p.size)
    tops = tuple(tuple(int(i) for i in np.argsort(-x, kind="stable")[:count]) for x in (p, q))
    shares = (softmax(p), softmax(q))
    margin = float(p[tops[0][0]] - p[tops[1][0]])
    centred = p - p.mean()
    size = float(np.linalg.norm(centred))
    spread = float(np.linalg.norm((q - q.mean()) - centred)) / size if size else 0.0
    chosen = tuple(tuple(float(s[i]) for i in top) for s, top in zip(shares, tops))
    return Guess(
        name,
        (tops[0], tops[1]),
        (chosen[0], chosen[1]),
        kl_divergence(p, q),
        float(np.abs(shares[0] - shares[1]).max()),
        margin,
        ties and margin <= bf16_step(float(p[tops[0][0]])),
        spread,
        finite,
        label,
    )


def share(values: Sequence[bool]) -> float:
    """The share of true ones; 0 for none at all."""
    return sum(values) / len(values) if values else 0.0


def accuracy(guesses: Sequence[Guess], side: int, within: int) -> float:
    """Share of labelled pictures whose class is among the first ``within`` of ``side`` (0 fp32, 1 tested)."""
    return share([g.label in g.top[side][:within] for g in guesses if g.label is not None])


def top5_overlap(guess: Guess) -> float:
    """Share of the reference's five classes that the tested five hold too."""
    reference, tested = guess.top
    return len(set(reference) & set(tested)) / len(reference) if reference else 0.0

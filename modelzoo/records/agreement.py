"""How far the outputs of an engine are from those of torch in fp32, for the same weights and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

FP32_BOUND = 1e-5
"""Largest mean error ÷ mean |output| at which an engine in fp32 gives the same outputs as torch. Rounding alone gives
1e-7 to 6e-7 with ResNet50 and BERT; bf16 anywhere gives 1e-3."""
MATCHED_BOUND = 0.99
"""Smallest share of a detector's detections that both engines must have in common: a score at the threshold, or a box
at the overlap of NMS, may fall on either side of it."""


@dataclass(frozen=True)
class OutputError:
    """The error of one output array.

    Attributes:
        name: where it is in the model's output, such as ``0`` or ``head.bbox_regression``.
        elements: number of its values.
        mean_error: mean absolute error; ``None`` if either side has NaN or Inf, or another shape than the other.
        mean_output: mean absolute value of the reference.
        max_error: largest absolute error; ``None`` as above.
    """

    name: str
    elements: int
    mean_error: Optional[float]
    mean_output: float
    max_error: Optional[float]

    @property
    def relative(self) -> Optional[float]:
        """Mean error ÷ mean |output|; ``None`` if they cannot be compared."""
        if self.mean_error is None:
            return None
        if self.mean_output == 0:
            return 0.0 if self.mean_error == 0 else None
        return self.mean_error / self.mean_output


@dataclass(frozen=True)
class MatchedDetections:
    """The detections of torch and of an engine in the same pictures, matched by class and overlap.

    Attributes:
        expected: number of detections of torch.
        found: number of detections of the engine.
        matched: number of pairs.
    """

    expected: int
    found: int
    matched: int

    @property
    def share(self) -> float:
        """Detections in common ÷ detections of either; 1 if neither has any."""
        total = self.expected + self.found - self.matched
        return self.matched / total if total else 1.0


@dataclass(frozen=True)
class OutputAgreement:
    """How far the outputs of an engine are from those of torch in fp32, eager, in one batch.

    Attributes:
        outputs: the error of each output; of a detector, of its raw heads before NMS, and of its matched detections.
        bound: largest relative error allowed; ``None`` if the precision has none, and only ``validate`` can judge it.
        detections: how many detections match; ``None`` if the model is no detector.
    """

    outputs: tuple[OutputError, ...]
    bound: Optional[float] = None
    detections: Optional[MatchedDetections] = None

    @property
    def worst(self) -> Optional[OutputError]:
        """The output with the largest relative error, or one that cannot be compared; ``None`` without outputs."""
        if not self.outputs:
            return None
        return max(self.outputs, key=lambda each: float("inf") if each.relative is None else each.relative)

    @property
    def is_within_bound(self) -> Optional[bool]:
        """Whether the engine computes the same; ``None`` if the precision has no bound."""
        if self.bound is None:
            return None
        errors = [each.relative for each in self.outputs]
        close = bool(errors) and all(error is not None and error <= self.bound for error in errors)
        return close and (self.detections is None or self.detections.share >= MATCHED_BOUND)

"""How far the outputs of an engine are from those of torch in fp32, for the same weights and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

FP32_BOUND = 1e-5
"""Largest mean error ÷ mean |output| at which an engine in fp32 computes the same as torch. Rounding in another order
gives 1e-7 to 6e-7 with ResNet50 and BERT; bf16 anywhere gives about 1e-3."""
DETECTED_BOUND = 1e-4
"""The same for the values of matched detections: softmax, the decoding of boxes and sampling at their corners magnify
the rounding errors of the raw heads."""
MATCHED_BOUND = 0.95
"""Smallest share of a detector's detections that both must have in common, as when predictions are judged: NMS keeps
another of two boxes with nearly equal scores if rounding swaps them. One detection on each side may always differ."""


@dataclass(frozen=True)
class OutputError:
    """The error of one array of the output.

    Attributes:
        name: where the array is in the output, such as ``0`` or ``head.bbox_regression``.
        elements: number of its values.
        mean_error: mean absolute error; ``None`` if either side has NaN or Inf, or they have different shapes.
        mean_output: mean absolute value of torch's; ``None`` if it is not finite.
        max_error: largest absolute error; ``None`` likewise.
    """

    name: str
    elements: int
    mean_error: Optional[float]
    mean_output: Optional[float]
    max_error: Optional[float]

    @property
    def relative(self) -> Optional[float]:
        """Mean error ÷ mean |output|; ``None`` if they cannot be compared."""
        if self.mean_error is None or self.mean_output is None:
            return None
        if self.mean_output == 0:
            return 0.0 if self.mean_error == 0 else None
        return self.mean_error / self.mean_output

    def is_within(self, bound: float) -> bool:
        """Whether the relative error is known and not over ``bound``."""
        return self.relative is not None and self.relative <= bound


@dataclass(frozen=True)
class MatchedDetections:
    """The detections of torch and of an engine in the same pictures. Those of one class and nearly one box match.

    Attributes:
        expected: number of detections of torch.
        found: number of detections of the engine.
        matched: number of pairs.
        errors: of boxes, scores and masks of the pairs.
    """

    expected: int
    found: int
    matched: int
    errors: tuple[OutputError, ...] = ()

    @property
    def unmatched(self) -> int:
        """Number of detections of either side that the other one does not have."""
        return self.expected + self.found - 2 * self.matched

    @property
    def share(self) -> float:
        """Detections in common ÷ detections of either; 1 if neither has any."""
        total = self.expected + self.found - self.matched
        return self.matched / total if total else 1.0


@dataclass(frozen=True)
class OutputAgreement:
    """How far the outputs of an engine are from those of torch in fp32, eager, in one batch.

    Attributes:
        outputs: the error of each array of the output; of a detector, of its raw heads before NMS, and none if they
            cannot be observed.
        has_bound: whether the engine must compute the same, because it runs in fp32; the predictions of other
            precisions can only be judged by the task.
        detections: of a detector; ``None`` for other models.
    """

    outputs: tuple[OutputError, ...]
    has_bound: bool
    detections: Optional[MatchedDetections] = None

    @property
    def worst(self) -> Optional[OutputError]:
        """The array with the largest relative error, or one that cannot be compared; ``None`` if there are none."""
        errors = {each: float("inf") if each.relative is None else each.relative for each in self.outputs}
        return max(errors, key=lambda each: errors[each], default=None)

    @property
    def is_same(self) -> Optional[bool]:
        """Whether the engine computes the same as torch; ``None`` if there is no bound."""
        if not self.has_bound:
            return None
        was_compared = bool(self.outputs) or (self.detections is not None and bool(self.detections.errors))
        return was_compared and all(each.is_within(FP32_BOUND) for each in self.outputs) and self._detects_same()

    def _detects_same(self) -> bool:
        found = self.detections
        if found is None:
            return True
        few_differ = found.share >= MATCHED_BOUND or (found.matched > 0 and found.unmatched <= 2)
        return few_differ and all(each.is_within(DETECTED_BOUND) for each in found.errors)

    @property
    def summary(self) -> str:
        """The worst array's errors, and how many detections match, as text."""
        worst = self.worst
        if worst is None and self.detections is None:
            return "no outputs were compared"
        if worst is None:
            text = "the raw heads were not compared"
        elif worst.relative is None:
            text = f"output {worst.name} is not finite, or has another shape"
        else:
            text = f"mean error ÷ mean |output| {worst.relative:.1e}, mean error {worst.mean_error:.1e}"
            text += f" (output {worst.name})" if len(self.outputs) > 1 else ""
        found = self.detections
        if found is None:
            return text
        values = [each.relative for each in found.errors]
        error = (
            "not finite" if None in values else f"{max((each for each in values if each is not None), default=0):.1e}"
        )
        text += " before NMS" if worst is not None else ""
        return (
            f"{text}; {found.matched} of {found.expected} detections match ({found.found} found), "
            f"their error {error}"
        )

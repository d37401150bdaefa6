"""What a run worked on: its weights, the numbers that its amount of work depends on, and its model in the format of an
engine, with how far the outputs of that are from those of torch.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Message, Public, Word
from modelzoo.warning import WarningMessage


class WeightsKind(Word):
    """Where the weights of a run come from.

    ``PRETRAINED``: downloaded as the workload's checkpoint, or found under its name. ``RANDOM``: generated from a seed.
    ``PATH``: a file or directory named by ``--weights``.
    """

    PRETRAINED = "pretrained"
    RANDOM = "random"
    PATH = "path"


Verification = Annotated[Literal["full", "partial", "none"], PUBLIC]
"""How far a file was shown to be the published one, by the SHA-256 that the workload declares for it.

``full``: all 64 digits were compared. ``partial``: the first ones, which detects damage, not a forgery. ``none``:
none is declared."""


class Weights(msgspec.Struct, frozen=True):
    """The weights that a run used, on this machine.

    Attributes:
        kind: where they come from.
        name: name of the checkpoint, or of the file or directory; ``seed N`` for random weights.
        path: absolute path of a weights file or of a checkpoint directory.
        sha256: SHA-256 of the file that holds the tensors, hexadecimal.
        seed: seed of random weights, ``None`` for the other kinds.
        problem: the error for which they are random; ``None`` if the user asked for them, or for the other kinds.
        verification: how far pretrained weights were shown to be the published ones; ``None`` for the other kinds, or
            if it was not recorded.
    """

    kind: WeightsKind
    name: str
    path: str
    sha256: Public
    seed: int | None = None
    problem: Message | None = None
    verification: Verification | None = None


class LocalWeights(Weights, frozen=True):
    """Weights in a file of this machine, which the user has named or a worker outside of containers has found.

    A message never holds them: whatever is read from a worker are ``Weights``, so nothing that a worker says makes a
    file of this machine visible in a container.
    """


class Count(msgspec.Struct, frozen=True):
    """A number that the model's amount of work depends on, with the range observed with trained weights.

    Attributes:
        name: what is counted, for example "detections per image".
        value: the number in this run.
        low: lower end of the range observed with trained weights.
        high: upper end of that range.
        source: where ``low`` and ``high`` come from.
    """

    name: Message
    value: float
    low: float
    high: float
    source: Message

    @property
    def is_typical(self) -> bool:
        """Whether the value lies in the range observed with trained weights."""
        return self.low <= self.value <= self.high


ExportOption = bool | int | float | Message


class Conversion(msgspec.Struct, frozen=True):
    """How a torch module is converted. Equal conversions of equal weights give equal exports.

    Attributes:
        exporter: what converts it, for example ``torch.onnx.export``.
        version: the exporter's version, and those of other packages that it depends on.
        opset: version of the ONNX operators; ``None`` if the format has none.
        options: every option that changes what is exported.
    """

    exporter: Message
    version: Message
    opset: int | None = None
    options: dict[str, ExportOption] = {}


class Export(msgspec.Struct, frozen=True):
    """A workload's model with its weights, converted once for all processes of a call.

    Attributes:
        path: the directory that holds it; ``modelzoo.engines.export.store`` reads it.
        batch: name of the measured batch in that directory: its inputs, and torch's outputs for them.
        conversion: how it was made.
        state_sha256: SHA-256 of the torch module's state: names, shapes, types and values of all tensors.
        sha256: SHA-256 of the converted files.
        parts: if the model could not be converted whole, the parts that it was split into, and what runs each; empty
            if it is whole.
        converted: types other than fp32 in which the torch module had weights, with their shares of all; they were
            converted to fp32 before.
        warnings: of its weights.
    """

    path: str
    batch: str
    conversion: Conversion
    state_sha256: Public
    sha256: Public
    parts: tuple[Message, ...] = ()
    converted: dict[str, float] = {}
    warnings: tuple[WarningMessage, ...] = ()


FP32_BOUND = 1e-5
"""Largest mean error ÷ mean |output| at which an engine in fp32 computes the same as torch. Rounding in another order
gives 1e-7 to 6e-7 with ResNet50 and BERT; bf16 anywhere gives about 1e-3."""
INPUT_CHANGE = 1e-6
"""Relative change of the inputs, about 8 steps of fp32, by which it is found out how much a network magnifies rounding.
An ill-conditioned one, such as a deep detector with random weights, magnifies it more than a hundredfold, also between
two kernels of torch; no engine can be held to a fixed bound then."""
MAGNIFIED = 10.0
"""Where that change alone exceeds ``FP32_BOUND``, the bound is this many times what it causes: every layer rounds."""
DETECTED_BOUND = 1e-4
"""The same for the values of matched detections: softmax, the decoding of boxes and sampling at their corners magnify
the rounding errors of the raw heads."""
ROUNDED = 3.0
"""An error may be this many times what rounding every number in fp32 causes (``modelzoo.evidence.rounded``), at least
what rounding one number does: kernels round at other places."""
BF16_ROUNDING = 2.0**-8
"""Rounding a number to bf16's 8 significant bits changes it by this part at most."""
MATCHED_BOUND = 0.95
"""Smallest share of a detector's detections that both must have in common, as when predictions are judged: NMS keeps
another of two boxes with nearly equal scores if rounding swaps them. One detection on each side may always differ."""


class OutputError(msgspec.Struct, frozen=True):
    """The error of one array of the output.

    Attributes:
        name: where the array is in the output, such as ``0`` or ``head.bbox_regression``.
        elements: number of its values.
        mean_error: mean absolute error; ``None`` if one side has other NaN or Inf, or another shape.
        mean_output: mean absolute value of torch's; ``None`` if it is not finite.
        max_error: largest absolute error; ``None`` likewise.
        sensitivity: relative error that a relative change of the inputs by ``INPUT_CHANGE`` causes in torch; ``None``
            if it is not known, or the inputs are integers.
        rounding: relative error that rounding every number to bf16 causes in torch; ``None`` in other precisions, or if
            it is not known.
    """

    name: Public
    elements: int
    mean_error: float | None
    mean_output: float | None
    max_error: float | None
    sensitivity: float | None = None
    rounding: float | None = None

    @property
    def relative(self) -> float | None:
        """Mean error ÷ mean |output|; ``None`` if they cannot be compared."""
        if self.mean_error is None or self.mean_output is None:
            return None
        if self.mean_output == 0:
            return 0.0 if self.mean_error == 0 else None
        return self.mean_error / self.mean_output

    def bound(self, usual: float) -> float:
        """The relative error that is allowed: ``usual``, or more if the network magnifies rounding."""
        if self.sensitivity is None or self.sensitivity <= FP32_BOUND:
            return usual
        return max(usual, MAGNIFIED * self.sensitivity)

    def is_within(self, usual: float) -> bool:
        """Whether the relative error is known and not over the bound, which usually is ``usual``."""
        return self.relative is not None and self.relative <= self.bound(usual)


class MatchedDetections(msgspec.Struct, frozen=True):
    """The detections of torch and of an engine in the same images. Those of one class and nearly one box match.

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


class OutputAgreement(msgspec.Struct, frozen=True):
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
    detections: MatchedDetections | None = None

    @property
    def worst(self) -> OutputError | None:
        """The array nearest to its bound, or farthest over it; one that cannot be compared comes first."""
        errors = {
            each: float("inf") if each.relative is None else each.relative / each.bound(FP32_BOUND)
            for each in self.outputs
        }
        return max(errors, key=lambda each: errors[each], default=None)

    @property
    def magnifies(self) -> bool:
        """Whether the network magnifies rounding so much that no error in fp32 shows how it was computed."""
        values = self.detections.errors if self.detections is not None else ()
        return self.has_bound and any(each.bound(FP32_BOUND) > FP32_BOUND for each in (*self.outputs, *values))

    @property
    def is_explained(self) -> bool | None:
        """Whether the precision explains the errors of the outputs: in fp32 they are as small as ``is_same`` demands,
        in bf16 neither as small as that nor larger than rounding makes them. ``None`` if the outputs show nothing.
        """
        if self.has_bound:
            is_shown = bool(self.outputs) or (self.detections is not None and bool(self.detections.errors))
            return self.is_same if is_shown and not self.magnifies else None
        rounded = [(each.relative, each.rounding) for each in self.outputs if (each.rounding or 0.0) > FP32_BOUND]
        if not rounded:
            return None
        are_bounded = all(
            error is not None and error <= ROUNDED * max(rounding or 0.0, BF16_ROUNDING) for error, rounding in rounded
        )
        return are_bounded and any(error is not None and error > FP32_BOUND for error, _ in rounded)

    @property
    def is_same(self) -> bool | None:
        """Whether the engine computes the same as torch; ``None`` if there is no bound."""
        if not self.has_bound:
            return None
        found = self.detections
        if found is None:
            return bool(self.outputs) and all(each.is_within(FP32_BOUND) for each in self.outputs)
        few_differ = found.share >= MATCHED_BOUND or (found.matched > 0 and found.unmatched <= 2)
        are_within = all(each.is_within(FP32_BOUND) for each in self.outputs)
        are_within = are_within and all(each.is_within(DETECTED_BOUND) for each in found.errors)
        return bool(self.outputs or found.errors) and few_differ and are_within

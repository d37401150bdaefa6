"""What a workload declares so that its predictions can be judged: one class per kind of task.

``Workload.judge`` is a function of the workload's options that returns one of these. Importing this module does not
import torch; the callables do when they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

import msgspec

from modelzoo.workload.detectors import detector_output

if TYPE_CHECKING:
    from modelzoo.validity.protocol import JudgingTask, TaskContext


def stacked(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes one NCHW tensor."""
    import torch

    return (torch.stack(list(prepared)),)


def listed(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes a list of CHW tensors, as torchvision's detectors do."""
    return (list(prepared),)


def unchanged(output: Any) -> Any:
    """Return the model's output unchanged."""
    return output


def torchvision_detections(output: Any, sizes: Sequence[tuple[int, int]]) -> Any:
    """Detections of torchvision's detectors."""
    return detector_output(output)


def single(ids: Any) -> tuple[Any, ...]:
    """The ids alone: arguments of a model that takes nothing else."""
    return (ids,)


def before_the_proposals(name: str) -> bool:
    """Whether a layer runs before the region proposals.

    Behind them the rows are sorted by score, so that row k of one model is not row k of the other; those layers are
    judged by the detections.
    """
    return "roi_heads" not in name


def any_layer(name: str) -> bool:
    """Accept every layer."""
    return True


def qa_arguments(windows: Mapping[str, Any]) -> tuple[Any, ...]:
    """``(input_ids, attention_mask, token_type_ids)``, the order of ``BertForQuestionAnswering.forward``."""
    return tuple(windows[name] for name in ("input_ids", "attention_mask", "token_type_ids"))


def qa_logits(output: Any) -> tuple[Any, Any]:
    """Start and end logits, [N, L] each, of a transformers output, a mapping or a tuple."""
    if hasattr(output, "start_logits"):
        return output.start_logits, output.end_logits
    if isinstance(output, Mapping):
        return output["start_logits"], output["end_logits"]
    return output[0], output[1]


class Classification(msgspec.Struct, frozen=True):
    """Assigns each picture to one of C classes.

    Attributes:
        preprocess: converts an RGB ``PIL.Image`` to a float tensor [3, H, W].
        labels: returns the C class names, in the order of the model's outputs.
        wnids: returns the C WordNet ids in that order, or ``None`` if the classes are not ImageNet's.
        scores: extracts the logits [N, C] from the model's output.
        arguments: builds the model's positional arguments from preprocessed pictures.
        published: the published quality of the weights in per cent, ``{"top1": 80.858}``.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    preprocess: Callable[[Any], Any]
    labels: Callable[[], Sequence[str]]
    wnids: Callable[[], Optional[Sequence[str]]] = lambda: None
    scores: Callable[[Any], Any] = unchanged
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = stacked
    published: Mapping[str, float] = msgspec.field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer

    def bind(self, context: TaskContext) -> JudgingTask:
        """Return the task with the items of its data set; raises ``InputError`` if that cannot be read."""
        from modelzoo.validity.classification import ClassificationTask

        return ClassificationTask(self, context)


class Detection(msgspec.Struct, frozen=True):
    """Detects objects in pictures: boxes with labels and scores, and masks if the model computes them.

    Attributes:
        preprocess: converts an RGB ``PIL.Image`` to a float tensor [3, H, W].
        categories: returns ``(COCO category id, name)`` by the model's label.
        detections: converts ``(model output, sizes)`` to one mapping per picture: ``boxes`` [K, 4] as x0, y0, x1, y1
            in pixels of the picture that ``preprocess`` was given, ``scores`` [K], ``labels`` [K], and ``masks``
            [K, 1, H, W] or [K, H, W] as probabilities. ``sizes`` are the (height, width) of the pictures.
        arguments: builds the model's positional arguments from preprocessed pictures.
        masks: whether the model computes masks.
        shown: score from which a detection is drawn and matched.
        published: the published quality of the weights in per cent, ``{"box_ap": 25.1}``.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    preprocess: Callable[[Any], Any]
    categories: Callable[[], Mapping[int, tuple[int, str]]]
    detections: Callable[[Any, Sequence[tuple[int, int]]], Sequence[Mapping[str, Any]]] = torchvision_detections
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = listed
    masks: bool = False
    shown: float = 0.5
    published: Mapping[str, float] = msgspec.field(default_factory=dict)
    layers: Callable[[str], bool] = before_the_proposals

    def bind(self, context: TaskContext) -> JudgingTask:
        """Return the task with the items of its data set; raises ``InputError`` if that cannot be read."""
        from modelzoo.validity.detection import DetectionTask

        return DetectionTask(self, context)


class Answers(msgspec.Struct, frozen=True):
    """Answers questions about a paragraph by a span of it, scored by SQuAD's rules.

    Attributes:
        tokenizer: returns a fast tokenizer, given the checkpoint's directory (``None`` if there is none).
        arguments: makes the model's positional arguments of windows (name to tensor [N, L]).
        logits: extracts (start, end) logits, [N, L] each, from the model's output.
        max_length: tokens per window; longer paragraphs are cut into several.
        stride: tokens that neighbouring windows share.
        n_best: number of start and of end candidates that are combined.
        max_answer_length: maximum number of tokens in an answer. The four defaults are those of transformers'
            ``run_qa.py`` and BERT's ``run_squad.py``.
        published: the published quality of the weights in per cent, ``{"f1": 93.15}``.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    tokenizer: Callable[[Any], Any]
    arguments: Callable[[Mapping[str, Any]], tuple[Any, ...]] = qa_arguments
    logits: Callable[[Any], tuple[Any, Any]] = qa_logits
    max_length: int = 384
    stride: int = 128
    n_best: int = 20
    max_answer_length: int = 30
    published: Mapping[str, float] = msgspec.field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer

    def bind(self, context: TaskContext) -> JudgingTask:
        """Return the task with the items of its data set; raises ``InputError`` if that cannot be read."""
        from modelzoo.validity.answers import AnswersTask

        return AnswersTask(self, context)


class LanguageModeling(msgspec.Struct, frozen=True):
    """Predicts each token of a text from those before it.

    Attributes:
        tokenizer: ``(checkpoint's directory, or None)`` to a function that turns a text into token ids.
        arguments: makes the model's positional arguments of ids [N, L].
        logits: extracts the logits [N, L, V] from the model's output.
        window: tokens that the model sees at once; longer passages are cut into several windows.
        layers: whether the module of that name computes the same rows in both models, so that it can be compared.
    """

    tokenizer: Callable[[Any], Callable[[str], Sequence[int]]]
    arguments: Callable[[Any], tuple[Any, ...]] = single
    logits: Callable[[Any], Any] = unchanged
    window: int = 512
    layers: Callable[[str], bool] = any_layer

    def bind(self, context: TaskContext) -> JudgingTask:
        """Return the task with the items of its data set; raises ``InputError`` if that cannot be read."""
        from modelzoo.validity.language import LanguageTask

        return LanguageTask(self, context)

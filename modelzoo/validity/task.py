"""What a workload declares so that its predictions can be judged: one frozen object per kind of task.

A workload puts one of these into ``Workload.judge``. Nothing here imports torch; the callables do, when
they are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable


def stacked(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes one NCHW tensor."""
    import torch

    return (torch.stack(list(prepared)),)


def listed(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes a list of CHW tensors, as torchvision's detectors do."""
    return (list(prepared),)


def same(output: Any) -> Any:
    """Return the model's output unchanged."""
    return output


def torchvision_detections(output: Any, sizes: Sequence[tuple[int, int]]) -> Any:
    """Detections as torchvision's detectors give them: eager a list of dicts, scripted (losses, list)."""
    return output[1] if isinstance(output, tuple) else output


def before_the_proposals(name: str) -> bool:
    """Whether a layer sees the same thing in both models.

    Behind the region proposals the rows follow the order of the scores, so that row k of one model is not
    row k of the other; those layers are judged by the detections.
    """
    return "roi_heads" not in name


def any_layer(name: str) -> bool:
    """Every layer can be compared."""
    return True


def qa_arguments(windows: Mapping[str, Any]) -> tuple[Any, ...]:
    """``(input_ids, attention_mask, token_type_ids)``, the order of ``BertForQuestionAnswering.forward``."""
    return tuple(windows[name] for name in ("input_ids", "attention_mask", "token_type_ids"))


def qa_logits(output: Any) -> tuple[Any, Any]:
    """Start and end logits, [N, L] each, of a transformers output, a dict or a tuple."""
    if hasattr(output, "start_logits"):
        return output.start_logits, output.end_logits
    if isinstance(output, Mapping):
        return output["start_logits"], output["end_logits"]
    return output[0], output[1]


@dataclass(frozen=True)
class Classification:
    """Pictures into one of C classes.

    Attributes:
        preprocess: an RGB ``PIL.Image`` to a float tensor [3, H, W].
        labels: the C class names, in the order of the model's outputs.
        wnids: the C WordNet ids in that order, or ``None`` where the classes are not ImageNet's.
        scores: the model's output to logits [N, C].
        arguments: prepared pictures to the model's positional arguments.
        published: the published quality of the weights in per cent, ``{"top1": 80.858}``.
        layers: which module names see the same thing in both models.
    """

    preprocess: Callable[[Any], Any]
    labels: Callable[[], Sequence[str]]
    wnids: Callable[[], Sequence[str] | None] = lambda: None
    scores: Callable[[Any], Any] = same
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = stacked
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer


@dataclass(frozen=True)
class Detection:
    """Pictures into boxes with labels and scores, and masks where the model has them.

    Attributes:
        preprocess: an RGB ``PIL.Image`` to a float tensor [3, H, W].
        detections: ``(model output, sizes)`` to one dict a picture: ``boxes`` [K, 4] as x0, y0, x1, y1 in
            pixels of the picture that ``preprocess`` was given, ``scores`` [K], ``labels`` [K], and
            ``masks`` [K, 1, H, W] or [K, H, W] as probabilities; ``sizes`` are their (height, width).
        categories: the model's label to ``(COCO category id, name)``.
        arguments: prepared pictures to the model's positional arguments (a list, or ``stacked``).
        masks: whether there are masks.
        shown: detections from this score on are drawn and matched.
        published: the published quality in per cent, ``{"box_ap": 25.1}``.
        layers: which module names see the same thing in both models.
    """

    preprocess: Callable[[Any], Any]
    categories: Callable[[], Mapping[int, tuple[int, str]]]
    detections: Callable[[Any, Sequence[tuple[int, int]]], Sequence[Mapping[str, Any]]] = torchvision_detections
    arguments: Callable[[Sequence[Any]], tuple[Any, ...]] = listed
    masks: bool = False
    shown: float = 0.5
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = before_the_proposals


@dataclass(frozen=True)
class Answers:
    """Questions about a paragraph into a span of it, scored by SQuAD's rules.

    Attributes:
        tokenizer: the checkpoint's directory (``None``: the workload's own choice) to a fast tokenizer.
        arguments: a mapping of stacked windows (``input_ids`` … [N, L]) to the model's positional arguments.
        logits: the model's output to (start, end) logits, [N, L] each.
        max_length: tokens in a window; longer paragraphs are cut into several.
        stride: tokens that neighbouring windows share.
        n_best: start and end candidates that are combined.
        max_answer_length: tokens in an answer at most. The four defaults are those of transformers'
            ``run_qa.py`` and BERT's ``run_squad.py``.
        published: the published quality in per cent, ``{"f1": 93.15}``.
        layers: which module names see the same thing in both models.
    """

    tokenizer: Callable[[Any], Any]
    arguments: Callable[[Mapping[str, Any]], tuple[Any, ...]] = qa_arguments
    logits: Callable[[Any], tuple[Any, Any]] = qa_logits
    max_length: int = 384
    stride: int = 128
    n_best: int = 20
    max_answer_length: int = 30
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer

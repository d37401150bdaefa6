"""Judgements made up for what is shown of them: of classes, of objects and of answers."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.exhibits import (
    CategoryAp,
    CategoryLosses,
    ExplainedLayers,
    PictureObjects,
    ShownAnswers,
    ShownClasses,
    ShownObjects,
)
from modelzoo.records.partial import (
    AnsweredQuestion,
    ChangedObject,
    ClassifiedPicture,
    LayerError,
    ScoredAnswer,
    TopClasses,
)
from modelzoo.records.validity import ClassChange, ClassLosses, MetricChange, Validity, ValidityVerdict

PICTURES = Validity(
    *("resnet50", "classification", "top1", 0.8, 0.79, ValidityVerdict.VALID, 0, "picture", 100, "picture", 100),
    tested_name="bf16",
)
QUESTIONS = replace(PICTURES, task="answers", metric="f1", item="question", items=42, cluster="passage", clusters=8)
F1 = MetricChange("f1", 0.92, 0.917, -0.011, 0.005, 0.016, 0.0504, 42, 3, 1, None, 0.03)
AP = replace(F1, metric="box_ap", worse=None, better=None, allowed_loss=None, p_value=0.031)
LAYER = LayerError("a", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)

CAT, DOG = TopClasses((0, 1), (0.7, 0.3), True), TopClasses((1, 0), (0.6, 0.4), True)
SAME = ClassifiedPicture(0, "a.jpg", 0, CAT, CAT, 0.0, 0.0, 0.0, 0.0, False)
FLIP = replace(SAME, name="b.jpg", tested=DOG, margin=0.05, near_tie=True)
CLASSIFIED = replace(
    PICTURES,
    shown=ShownClasses(
        (SAME, replace(SAME, name="c.jpg", label=None, tested=TopClasses((), (), False), kl=None)),
        (FLIP,),
        (0, 1),
        ("cat", "dog"),
    ),
    figures={
        **dict.fromkeys(("top1_reference", "top1_tested", "top5_reference", "top5_tested"), 0.9),
        **{"top1_agreement": 0.5, "top5_agreement": 1.0, "flips": 1.0, "near_ties": 1.0},
    },
    classes=ClassLosses((ClassChange("crane", 20, 0.95, 0.0, 1e-9, True),), 20, 20, 5, 0.1, 0.01),
    layers=ExplainedLayers((LAYER, replace(LAYER, name="b", error=None, scale=None, finite=False)), 1),
)
"""A class that changed, one that is broken, NaN in a layer, and no logits that are finite, so that KL is not known."""
BOX_AP = {
    f"box_{name}_{side}": 0.5
    for name in ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
    for side in ("reference", "tested")
}
DETECTED = replace(
    PICTURES,
    task="detection",
    shown=ShownObjects(
        (PictureObjects("a.jpg", 100, 90, 2, 1, 1, 1, 0.6, 0.1), PictureObjects("b.jpg", 5, 5, 0, 0, 0, 0)),
        (
            ChangedObject("a.jpg", "class 7", reference_score=0.55),
            ChangedObject("a.jpg", "person", tested_score=0.65),
            ChangedObject("a.jpg", "dog", 0.7, 0.7, 0.6),
        ),
        170,
        (CategoryLosses("box", (CategoryAp("dog", 12, 0.75, 0.25),), 4, 2, 1),),
    ),
    figures={
        **{"detection_agreement": 0.5, "matched": 2.0, "lost": 1.0, "new": 1.0, "moved": 1.0},
        **{**BOX_AP, "box_ap_small_reference": -1.0, "box_ap_tested": 0.25},
    },
    layers=ExplainedLayers((LAYER,)),
)
"""Objects that were lost, new and moved; sizes that the data set does not hold; no layer that is suspect."""
RYE = ScoredAnswer("rye bread", 0.8, 1.0, 1.0, True)
ALIKE = AnsweredQuestion(0, "q1", "What?", "rye bread", RYE, RYE, 1.0, 0.0, False, 0.01, 0.001)
ANSWERED = replace(
    QUESTIONS,
    shown=ShownAnswers(
        (
            replace(ALIKE, tested=ScoredAnswer("", 0.6, 0.0, 0.0, True), margin=0.25, near_tie=True),
            replace(ALIKE, expected=None, tested=ScoredAnswer("", 0.0, 0.0, 0.0, False), margin=None),
            ALIKE,
        )
    ),
    figures={
        **{"em_reference": 0.5, "em_tested": 0.25, "f1_reference": 0.75, "f1_tested": 0.5},
        **{"identical_answers": 0.5, "answer_agreement": 0.6},
    },
    changes=(F1, AP),
    layers=ExplainedLayers(()),
)
"""An empty answer, NaN, a question that has none; no logits that are finite; a model whose layers cannot be seen."""

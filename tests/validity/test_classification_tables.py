"""The tables of a classifier's judgement: what is shown of pictures that are labelled, changed or broken."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.partial import ClassifiedPicture, TopClasses
from modelzoo.validity import TaskContext, ValidityRequest
from modelzoo.validity.classification_tables import changed_tables, csv_rows, summary_table, top5_table

NAMES = ["cat", "dog"]
CONTEXT = TaskContext("toy", ValidityRequest(), tested_name="bf16")
CAT, DOG = TopClasses((0, 1), (0.7, 0.3), True), TopClasses((1, 0), (0.6, 0.4), True)
SAME = ClassifiedPicture(0, "a.jpg", 0, CAT, CAT, 0.0, 0.0, 0.0, 0.0, False)
CHANGED = replace(SAME, name="b.jpg", tested=DOG, margin=0.05, near_tie=True)
BROKEN = replace(SAME, name="c.jpg", label=None, tested=TopClasses((), (), False), kl=None)


def test_pictures_show_both_models_classes() -> None:
    """With the true class below the name; a note says where the other pictures are."""
    table = top5_table([SAME, BROKEN], NAMES, CONTEXT)
    assert table.columns == ("picture", "fp32", "bf16")
    assert table.rows[0] == ("a.jpg\n(cat)", " 70.0 % cat\n 30.0 % dog", " 70.0 % cat\n 30.0 % dog")
    assert table.rows[1][2] == "NaN or Inf"
    assert "of 11 pictures; all of them: toy_top5.csv" in top5_table([SAME] * 11, NAMES, CONTEXT).note


def test_csv_rows_are_ranks() -> None:
    """One row per rank; a picture without finite logits has none."""
    assert csv_rows([CHANGED, BROKEN], NAMES) == (
        ("b.jpg", "cat", "1", "cat", "0.700000", "dog", "0.600000"),
        ("b.jpg", "cat", "2", "dog", "0.300000", "cat", "0.400000"),
    )


def test_changed_classes_come_with_their_margin() -> None:
    """Largest margin first, near ties marked; no table if no class changed."""
    (table,) = changed_tables([SAME, CHANGED, replace(CHANGED, name="d.jpg", margin=2.0, near_tie=False)], NAMES)
    assert [(row[0], row[4]) for row in table.rows] == [("d.jpg", "2.000"), ("b.jpg", "0.050 near tie")]
    assert changed_tables([SAME, BROKEN], NAMES) == ()


def test_figures_without_a_value_are_dashes() -> None:
    """KL has no value if no picture has finite logits; accuracy is shown for labelled pictures only."""
    figures = {"top1_agreement": 0.5, "top5_agreement": 1.0, "flips": 1.0, "near_ties": 1.0}
    table = summary_table(figures, False, CONTEXT)
    assert table.rows[0][0] == "top-1 agreement"
    assert table.rows[3][2] == "–, –"
    labelled = {**figures, **dict.fromkeys(("top1_reference", "top1_tested", "top5_reference", "top5_tested"), 0.9)}
    assert summary_table(labelled, True, CONTEXT).rows[0] == ("top-1 accuracy", "90.00 %", "90.00 %")

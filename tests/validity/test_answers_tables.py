"""The tables of a judgement of answers."""

from __future__ import annotations

from modelzoo.frozen import replace
from modelzoo.records.partial import AnsweredQuestion, ScoredAnswer
from modelzoo.validity import TaskContext, ValidityRequest
from modelzoo.validity.answers_tables import SHOWN, answers_table, csv_rows, summary_table

CONTEXT = TaskContext("toy", ValidityRequest(), tested_name="bf16")
RYE = ScoredAnswer("rye bread", 0.8, 1.0, 1.0, True)
SAME = AnsweredQuestion(0, "q1", "What?", "rye bread", RYE, RYE, 1.0, 0.0, False, 0.01, 0.001)
CHANGED = replace(SAME, id="q2", tested=ScoredAnswer("", 0.6, 0.0, 0.0, True), margin=0.25, near_tie=True)
BROKEN = replace(SAME, id="q3", expected=None, tested=ScoredAnswer("", 0.0, 0.0, 0.0, False), margin=None)


def test_changed_answers_come_first() -> None:
    """With margin and near tie; an empty answer, NaN and a question without an answer are shown as such."""
    table = answers_table([SAME, CHANGED, BROKEN], CONTEXT)
    assert [row[5] for row in table.rows] == ["changed, margin 0.250 (near tie)", "changed, margin nan", "same"]
    assert table.rows[0][3] == "(no answer) (60 %)"
    assert table.rows[1][1:4] == ("(none)", "rye bread (80 %)", "NaN or Inf")
    assert table.rows[2][4] == "100 | 100"
    many = answers_table([SAME] * (SHOWN + 1), CONTEXT)
    assert len(many.rows) == SHOWN
    assert "all of them: toy_answers.csv" in many.note


def test_csv_rows_hold_both_answers() -> None:
    """One row per question, NaN included."""
    rows = csv_rows([CHANGED, BROKEN])
    assert rows[0] == ("q2", "What?", "rye bread", "0.8000", "1.0000", "", "0.6000", "0.0000", "0.2500")
    assert rows[1][-1] == "nan"


def test_the_summary_has_no_logits_without_finite_ones() -> None:
    """EM and F1 with their difference; the rows on logits only if there are figures."""
    figures = {"em_reference": 0.5, "em_tested": 0.25, "f1_reference": 0.75, "f1_tested": 0.5}
    figures |= {"identical_answers": 0.5, "answer_agreement": 0.6}
    table = summary_table(figures, CONTEXT)
    assert table.rows[0] == ("exact match", "50.00", "25.00", "-25.00")
    assert len(table.rows) == 4
    logits = {f"logit_{name}_{kind}": 0.1 for name in ("drift", "error") for kind in ("mean", "max")}
    assert len(summary_table({**figures, **logits}, CONTEXT).rows) == 6

"""Judge a question-answering model: EM and F1 by SQuAD's rules, identical answers, changes of the logits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Optional

from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import CsvRows, Exhibit, ShownAnswers
from modelzoo.records.partial import AnsweredQuestion, PartialResult, PictureNote, ScoredAnswer
from modelzoo.records.validity import Check, MetricChange, Reason, ReasonKind
from modelzoo.validity import squad
from modelzoo.validity.bounds import Extreme, draw, sums_by_cluster, typical_size
from modelzoo.validity.changes import ClassItem, class_changes, class_checks, class_limit, item_change
from modelzoo.validity.checks import check_ratio, check_shares
from modelzoo.validity.classification import fraction, rounding_step
from modelzoo.validity.finite import usable
from modelzoo.validity.picture_sets import sampled
from modelzoo.validity.prefetch import batches
from modelzoo.validity.protocol import Findings, ItemComparison, ItemResult, PreparedItem, TaskContext
from modelzoo.validity.squad import FIELDS, AnswerSpan, Question, Windows, best_span, cut_into_windows, span_score
from modelzoo.validity.verdict import published_check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.validity.task import Answers

PROBE_ITEMS = 4
"""Windows whose layers are compared."""
CSV_CHUNK = 1000
"""Questions per exhibit of the CSV file."""
CSV_COLUMNS = (
    *("id", "question", "fp32", "fp32_probability", "fp32_f1"),
    *("tested", "tested_probability", "tested_f1", "margin"),
)
IMPOSSIBLE = -1e30
"""What a logit of -inf is taken for, so that sums of two stay comparable."""
SHOWN = 40
"""Questions that are shown; the CSV file holds all of them."""


class AnswersTask:
    """A bound ``Answers``; a row is a window, a prediction its start and end logits [2, L] as doubles."""

    name = "answers"
    item_name = "question"
    probe_items = PROBE_ITEMS
    one_row = False
    compares_output = True

    def __init__(self, declaration: Answers, context: TaskContext) -> None:
        request = context.request
        questions = squad.read(Path(request.data) if request.data else squad.BUILTIN)
        self.context = context
        self._declaration = declaration
        self._may_be_empty = any(not question.answers for question in questions)
        self._tokenizer = declaration.tokenizer(Path(request.model_path) if request.model_path else None)
        self.items: Sequence[Question] = sampled(questions, request.limit, request.seed)

    def comparable_layer(self, name: str) -> bool:
        return self._declaration.layers(name)

    def identify(self, item: Question) -> str:
        return encode_json(item).decode()

    def file_of(self, item: Question) -> Optional[Path]:
        return None

    def data_digest(self) -> str:
        return f"unanswerable questions: {self._may_be_empty}"  # decides whether an answer may be empty

    def preparing_threads(self) -> int:
        return 1  # a fast tokenizer's padding and truncation are state that threads must not share

    def prepare(self, item: Question) -> PreparedItem:
        windows = cut_into_windows(item, self._tokenizer, self._declaration)
        rows = [{name: windows.fields[name][w] for name in FIELDS} for w in range(len(windows.offsets))]
        return PreparedItem(rows, source=windows)

    def arguments(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        import numpy as np
        import torch

        return self._declaration.arguments(
            {name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in FIELDS}
        )

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        """Start and end logits, [2, N, L]."""
        import torch

        return torch.stack([logits.float() for logits in self._declaration.logits(output)])

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        return list(self.output_tensor(output, rows).detach().double().cpu().numpy().transpose(1, 0, 2))

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> ItemComparison:
        import numpy as np

        windows: Windows = prepared.source
        first, second = (np.stack(logits).transpose(1, 0, 2) for logits in (reference, tested))
        result = self._answered(index, windows, first, second)
        return ItemComparison(result, (result.reference.f1, result.tested.f1))

    def _answered(
        self, index: int, windows: Windows, reference: NDArray[Any], tested: NDArray[Any]
    ) -> AnsweredQuestion:
        """Compare the logits [2, W, L] of both models for one question."""
        import numpy as np

        question = windows.question
        are_usable, is_possible = usable(reference, tested), np.isfinite(reference)
        reference, tested = (np.maximum(logits, IMPOSSIBLE) for logits in (reference, tested))
        spans = [self._span(windows, each) if ok else None for ok, each in zip(are_usable, (reference, tested))]
        answers = [self._scored(question, span) for span in spans]
        margin = change = error = None
        near_tie, agreement_f1 = False, 0.0
        if spans[0] is not None and spans[1] is not None:
            margin = spans[0].score - span_score(spans[1], reference)
            bits = self.context.significant_bits
            near_tie = bits is not None and margin <= 2 * rounding_step(spans[0].score / 2, bits)
            agreement_f1 = squad.f1(spans[1].text, spans[0].text)
            tokens = windows.fields["attention_mask"].astype(bool) & is_possible
            expected, observed = reference[tokens], tested[tokens]
            size = float(np.linalg.norm(expected))
            error = float(np.linalg.norm(observed - expected)) / size if size else 0.0
            change = float(np.abs(observed - expected).max())
        return AnsweredQuestion(
            index=index,
            id=question.id,
            question=question.question,
            expected=question.answers[0] if question.answers else None,
            reference=answers[0],
            tested=answers[1],
            agreement_f1=agreement_f1,
            margin=margin,
            near_tie=near_tie,
            logit_change=change,
            logit_error=error,
        )

    def _span(self, windows: Windows, logits: NDArray[Any]) -> AnswerSpan:
        return best_span(windows, logits, self._declaration, self._may_be_empty)

    def _scored(self, question: Question, span: Optional[AnswerSpan]) -> ScoredAnswer:
        if span is None:
            return ScoredAnswer("", 0.0, 0.0, 0.0, False)
        return ScoredAnswer(span.text, span.probability, *squad.scores(span.text, question.answers), True)

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        return "f1", tuple(each / count for each in sums)

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        answered = tuple(each for each in results if isinstance(each, AnsweredQuestion))
        return PartialResult(self.name, answered=answered, notes=tuple(notes))

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        for chunk in batches(result.answered, CSV_CHUNK):
            yield Exhibit("answers.csv", csv=CsvRows(CSV_COLUMNS, csv_rows(chunk)))

    def findings(self, result: PartialResult) -> Findings:
        questions = result.answered
        values = figures(questions)
        passages = [self.items[q.index].context for q in questions]
        count = len(set(passages))
        is_finite = all(q.reference.finite for q in questions)
        classes = class_changes(class_items(questions, passages), class_limit(self.context.request.tolerance))
        return Findings(
            metric="f1",
            reference=values["f1_reference"],
            tested=values["f1_tested"],
            checks=[*self._checks(values, questions, passages), *class_checks(classes, self.context.request.tolerance)],
            in_common=any(q.agreement_f1 > 0 for q in questions),
            nonfinite=sum(not q.tested.finite for q in questions),
            reference_problem=None if is_finite else Reason(ReasonKind.REFERENCE_NOT_FINITE),
            counts={"questions": len(questions), "passages": count},
            figures=values,
            shown=ShownAnswers(tuple(sorted(questions, key=lambda q: q.same)[:SHOWN])),
            changes=changes(questions, passages),
            classes=classes,
            clusters=count,
            cluster_name="passage",
        )

    def _checks(
        self, values: Mapping[str, float], questions: Sequence[AnsweredQuestion], passages: Sequence[str]
    ) -> list[Check]:
        request, reference = self.context.request, values["f1_reference"]
        deviation = math.sqrt(sum((q.reference.f1 - reference) ** 2 for q in questions) / len(questions))
        published = self._declaration.published.get("f1", 0.0) / 100
        return [
            *sampled_checks(questions, passages, request.tolerance),
            *published_check(published, reference, deviation, len(set(passages)), request),
        ]


def sampled_checks(
    questions: Sequence[AnsweredQuestion], passages: Sequence[str], tolerance: Mapping[str, float]
) -> list[Check]:
    """Check F1 and the answers in common, of which the passages are a sample."""
    sizes, (first, second, common) = sums_by_cluster(
        passages,
        [q.reference.f1 for q in questions],
        [q.tested.f1 for q in questions],
        [q.agreement_f1 for q in questions],
    )
    size, count = typical_size(sizes), len(questions)
    drawn = draw(second, first, Extreme(0, size), Extreme(size, 0))
    return [
        check_ratio("accuracy", drawn, count, tolerance),
        check_shares("answer_agreement", common, sizes, count, tolerance),
    ]


def changes(questions: Sequence[AnsweredQuestion], passages: Sequence[str]) -> list[MetricChange]:
    """How F1 and exact match changed, passage by passage."""
    found = (
        item_change("f1", [q.reference.f1 for q in questions], [q.tested.f1 for q in questions], clusters=passages),
        item_change(
            "em", [q.reference.exact for q in questions], [q.tested.exact for q in questions], clusters=passages
        ),
    )
    return [each for each in found if each is not None]


def class_items(questions: Sequence[AnsweredQuestion], passages: Sequence[str]) -> Iterator[ClassItem]:
    """The F1 of both answers by the kind of question; questions without an answer are a kind of their own.

    The unit is the passage, because questions about the same one are not independent.
    """
    found: dict[tuple[str, str], list[AnsweredQuestion]] = {}
    for q, passage in zip(questions, passages):
        kind = "no answer" if q.expected is None else squad.question_kind(q.question)
        found.setdefault((kind, passage), []).append(q)
    for (kind, _), each in found.items():
        yield ClassItem(kind, fmean(q.reference.f1 for q in each), fmean(q.tested.f1 for q in each))


def figures(questions: Sequence[AnsweredQuestion]) -> dict[str, float]:
    """EM and F1 of both models from 0 to 1, and how much answers and logits changed."""
    count = len(questions)
    found = {
        "em_reference": sum(q.reference.exact for q in questions) / count,
        "em_tested": sum(q.tested.exact for q in questions) / count,
        "f1_reference": sum(q.reference.f1 for q in questions) / count,
        "f1_tested": sum(q.tested.f1 for q in questions) / count,
        "identical_answers": fraction([q.same for q in questions]),
        "answer_agreement": sum(q.agreement_f1 for q in questions) / count,
    }
    columns = {
        "logit_drift": [q.logit_change for q in questions],
        "logit_error": [q.logit_error for q in questions],
    }
    for name, column in columns.items():
        values = [value for value in column if value is not None]
        if values:
            found[f"{name}_mean"], found[f"{name}_max"] = sum(values) / len(values), max(values)
    return found


def csv_rows(questions: Sequence[AnsweredQuestion]) -> tuple[tuple[str, ...], ...]:
    """Both answers to each question with their scores, one row per question."""
    rows = []
    for q in questions:
        cells = [
            cell
            for answer in (q.reference, q.tested)
            for cell in (answer.text, f"{answer.probability:.4f}", f"{answer.f1:.4f}")
        ]
        rows.append((q.id, q.question, *cells, "nan" if q.margin is None else f"{q.margin:.4f}"))
    return tuple(rows)

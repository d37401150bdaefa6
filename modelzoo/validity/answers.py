"""Judge a question-answering model: EM and F1 by SQuAD's rules, identical answers, changes of the logits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelzoo.records.exhibits import ShownAnswers
from modelzoo.records.partial import AnsweredQuestion, Row, ScoredAnswer
from modelzoo.records.validity import ValidityRequest
from modelzoo.validity import squad
from modelzoo.validity.checks import usable
from modelzoo.validity.classification import rounding_step
from modelzoo.validity.picture_sets import sampled
from modelzoo.validity.rows import Metric, Rule, clusters, mean, means_and_largest, ratio, share
from modelzoo.validity.squad import FIELDS, AnswerSpan, Question, Windows, best_span, cut_into_windows, span_score
from modelzoo.validity.task import PreparedItem, Task, any_layer

IMPOSSIBLE = -1e30
"""What a logit of -inf is taken for, so that sums of two stay comparable."""
SHOWN = 40
"""Questions that are shown; the CSV file holds all of them."""


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


@dataclass
class Answers(Task):
    """Answers questions about a paragraph by a span of it, scored by SQuAD's rules.

    A row is a window, a prediction its start and end logits [2, L] as doubles.

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
    published: Mapping[str, float] = field(default_factory=dict)
    layers: Callable[[str], bool] = any_layer

    name, metric, item_name, cluster_name = "answers", "f1", "question", "passage"
    probe_items = 4
    one_row = False
    csv = (
        "answers.csv",
        (
            *("id", "question", "fp32", "fp32_probability", "fp32_f1"),
            *("tested", "tested_probability", "tested_f1", "margin"),
        ),
    )
    metrics = (Metric("f1"), Metric("em"))
    rules = (Rule("accuracy", ratio, "f1"), Rule("answer_agreement", share, "answer_agreement"))

    def read(self, request: ValidityRequest) -> Sequence[Question]:
        questions = squad.read(Path(request.data) if request.data else squad.BUILTIN)
        self.may_be_empty = any(not question.answers for question in questions)
        self.encoder = self.tokenizer(Path(request.model_path) if request.model_path else None)
        chosen = sampled(questions, request.limit, request.seed)
        found, self.data_notes = squad.checked(chosen, self.encoder, self, request.skip_bad)
        return found

    def data_digest(self) -> str:
        return f"unanswerable questions: {self.may_be_empty}"  # decides whether an answer may be empty

    def prepare(self, item: Question) -> PreparedItem:
        windows = cut_into_windows(item, self.encoder, self)
        rows = [{name: windows.fields[name][w] for name in FIELDS} for w in range(len(windows.offsets))]
        return PreparedItem(rows, source=windows)

    def batch_arguments(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
        import numpy as np
        import torch

        return self.arguments({name: torch.from_numpy(np.stack([row[name] for row in rows])) for name in FIELDS})

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        """Start and end logits, [2, N, L]."""
        import torch

        return torch.stack([logits.float() for logits in self.logits(output)])

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        return list(self.output_tensor(output, rows).detach().double().cpu().numpy().transpose(1, 0, 2))

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        import numpy as np

        windows: Windows = prepared.source
        question = windows.question
        first, second = (np.stack(logits).transpose(1, 0, 2) for logits in (reference, tested))  # [2, W, L]
        are_usable, is_possible = usable(first, second), np.isfinite(first)
        first, second = (np.maximum(logits, IMPOSSIBLE) for logits in (first, second))
        spans = [
            best_span(windows, each, self, self.may_be_empty) if ok else None
            for ok, each in zip(are_usable, (first, second))
        ]
        margin = change = error = None
        near_tie, agreement_f1 = False, 0.0
        if spans[0] is not None and spans[1] is not None:
            margin = spans[0].score - span_score(spans[1], first)
            bits = self.context.significant_bits
            near_tie = bits is not None and margin <= 2 * rounding_step(spans[0].score / 2, bits)
            agreement_f1 = squad.f1(spans[1].text, spans[0].text, question.rules)
            tokens = windows.fields["attention_mask"].astype(bool) & is_possible
            expected, observed = first[tokens], second[tokens]
            size = float(np.linalg.norm(expected))
            error = float(np.linalg.norm(observed - expected)) / size if size else 0.0
            change = float(np.abs(observed - expected).max())
        answered = AnsweredQuestion(
            index,
            question.id,
            question.question,
            question.answers[0] if question.answers else None,
            _scored(question, spans[0]),
            _scored(question, spans[1]),
            agreement_f1=agreement_f1,
            margin=margin,
            near_tie=near_tie,
            logit_change=change,
            logit_error=error,
        )
        return row(answered, question.context)

    def counts(self, rows: Sequence[Row]) -> dict[str, int]:
        return {**super().counts(rows), "passages": len(set(clusters(rows)))}

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """EM and F1 of both models from 0 to 1, and how much answers and logits changed."""
        names = ("em_reference", "em_tested", "f1_reference", "f1_tested", "identical_answers", "answer_agreement")
        return {**{name: mean(rows, name) for name in names}, **means_and_largest(rows, "logit_drift", "logit_error")}

    def shown_items(self, rows: Sequence[Row]) -> ShownAnswers:
        """Those whose answer changed first."""
        questions = [row.answered for row in rows if row.answered is not None]
        return ShownAnswers(tuple(sorted(questions, key=lambda q: q.same)[:SHOWN]))


def _scored(question: Question, span: AnswerSpan | None) -> ScoredAnswer:
    if span is None:
        return ScoredAnswer("", 0.0, 0.0, 0.0, False)
    em, f1 = squad.scores(span.text, question.answers, question.rules)
    return ScoredAnswer(span.text, span.probability, em, f1, True)


def row(q: AnsweredQuestion, passage: str) -> Row:
    """The row of a question about ``passage``.

    Its class is the kind of question; questions without an answer are a kind of their own.
    """
    first, second = q.reference, q.tested
    numbers = {
        **{"em_reference": first.exact, "em_tested": second.exact, "f1_reference": first.f1, "f1_tested": second.f1},
        **{"identical_answers": float(q.same), "answer_agreement": q.agreement_f1},
        **{"logit_drift": q.logit_change, "logit_error": q.logit_error},
    }
    sides = [cell for a in (first, second) for cell in (a.text, f"{a.probability:.4f}", f"{a.f1:.4f}")]
    return Row(
        q.index,
        q.id,
        {name: value for name, value in numbers.items() if value is not None},
        first.finite,
        second.finite,
        in_common=q.agreement_f1 > 0,
        cluster=hashlib.sha256(passage.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        classes={"no answer" if q.expected is None else squad.question_kind(q.question): (first.f1, second.f1)},
        cells=((q.id, q.question, *sides, "nan" if q.margin is None else f"{q.margin:.4f}"),),
        answered=q,
    )

"""Judge a language model: on real text, what it predicts for each token, beside what fp32 predicts there.

Both models get the same tokens (teacher forcing), so a prediction that differs does not change those after it. The
statistics are those of llama.cpp's ``llama-perplexity --kl-divergence`` (tools/perplexity/README.md): the ratio of the
perplexities, the Kullback-Leibler divergence of the tested distribution from fp32's at each position, its mean and
percentiles, and how often both models find the same token most likely ("same top p"). Unlike there, every token but
the first one of a window is predicted. Inference is by passage, never by token: the tokens of a passage are not
independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import msgspec

from modelzoo.errors import InputError
from modelzoo.records.exhibits import CsvRows, Exhibit, PassageScores, ShownPassages
from modelzoo.records.partial import PartialResult, PictureNote, ScoredPassage
from modelzoo.records.validity import Check, Reason, ReasonKind
from modelzoo.validity import squad
from modelzoo.validity.bounds import Extreme, draw, percentile_bounds
from modelzoo.validity.changes import item_change
from modelzoo.validity.checks import FAILS, PASSES, check_bounds, check_ratio, check_shares, check_value
from modelzoo.validity.finite import usable
from modelzoo.validity.picture_sets import sampled
from modelzoo.validity.prefetch import batches
from modelzoo.validity.protocol import Findings, ItemComparison, ItemResult, PreparedItem, TaskContext
from modelzoo.workload.inputs import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from modelzoo.validity.task import LanguageModeling

PROBE_ITEMS = 2
"""Windows whose layers are compared."""
CHUNK = 64
"""Positions that are compared together: with a vocabulary of 50,000, some 100 MB."""
TAIL = 99.0
"""The percentile of the divergences that is checked."""
CSV_CHUNK = 1000
"""Passages per exhibit of the CSV file."""
CSV_COLUMNS = ("passage", "tokens", "fp32_perplexity", "tested_perplexity", "mean_kl", "max_kl", "same_top")
SHOWN = 40
"""Passages that are shown; the CSV file holds all of them."""


class Passage(msgspec.Struct, frozen=True):
    """One document, from which others are independent."""

    name: str
    text: str


def read_passages(path: Optional[Path]) -> list[Passage]:
    """Return the paragraphs of a SQuAD file (``.json``, or a directory with one), or those of a text.

    Args:
        path: ``None`` for the built-in paragraphs. In a text, blank lines separate the paragraphs.

    Raises:
        InputError: the file cannot be read, or holds no text.
    """
    if path is None:
        texts = squad.builtin_passages()
    elif path.is_dir() or path.suffix == ".json":
        texts = squad.passages(squad.read(path))
    else:
        texts = [each.strip() for each in read_text(path).split("\n\n")]
    found = [Passage(f"passage {number}", text) for number, text in enumerate(texts, 1) if text.strip()]
    if not found:
        raise InputError(f"{path} holds no text")
    return found


class LanguageTask:
    """A bound ``LanguageModeling``; a row is the ids of a window, a prediction its logits [L, V] in fp32."""

    name = "language"
    item_name = "passage"
    probe_items = PROBE_ITEMS
    one_row = False
    compares_output = True

    def __init__(self, declaration: LanguageModeling, context: TaskContext) -> None:
        request = context.request
        self.context = context
        self._declaration = declaration
        self._encode = declaration.tokenizer(Path(request.model_path) if request.model_path else None)
        passages = read_passages(Path(request.data) if request.data else None)
        self.items: Sequence[Passage] = sampled(passages, request.limit, request.seed)

    def comparable_layer(self, name: str) -> bool:
        return self._declaration.layers(name)

    def identify(self, item: Passage) -> str:
        return item.text

    def file_of(self, item: Passage) -> Optional[Path]:
        return None

    def data_digest(self) -> str:
        return f"windows of {self._declaration.window} tokens"

    def preparing_threads(self) -> int:
        return 1  # a fast tokenizer has state that threads must not share

    def prepare(self, item: Passage) -> PreparedItem:
        ids, size = list(self._encode(item.text)), self._declaration.window
        if len(ids) < 2:
            raise InputError(f"{item.name} has fewer than two tokens, so that none can be predicted; remove it")
        return PreparedItem([ids[start : start + size] for start in range(0, len(ids), size)])

    def arguments(self, rows: Sequence[Sequence[int]]) -> tuple[Any, ...]:
        """Ids [N, L]; shorter rows are filled up behind their end, which changes nothing before it."""
        import torch

        longest = max(map(len, rows))
        return self._declaration.arguments(torch.tensor([[*row, *[row[-1]] * (longest - len(row))] for row in rows]))

    def output_tensor(self, output: Any, rows: Sequence[Sequence[int]]) -> Any:
        """Logits of all positions of all rows, one after the other, [sum of L, V]."""
        import torch

        logits = self._declaration.logits(output)
        return torch.cat([logits[number, : len(row)].float() for number, row in enumerate(rows)])

    def predictions(self, output: Any, rows: Sequence[Sequence[int]]) -> Sequence[Any]:
        logits = self._declaration.logits(output)
        return [logits[number, : len(row)].detach().float().cpu().numpy() for number, row in enumerate(rows)]

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> ItemComparison:
        found = [scored(*each) for each in zip(reference, tested, prepared.rows)]
        divergences = tuple(value for each in found for value in each.divergences)
        result = ScoredPassage(
            index=index,
            name=self.items[index].name,
            tokens=sum(len(row) - 1 for row in prepared.rows),
            reference_nll=math.fsum(each.reference_nll for each in found),
            tested_nll=math.fsum(each.tested_nll for each in found),
            divergences=divergences,
            same_top=sum(each.same_top for each in found),
            reference_finite=all(each.reference_finite for each in found),
            tested_finite=all(each.tested_finite for each in found),
        )
        return ItemComparison(result, (float(result.same_top), float(result.tokens)))

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        return "same_top", (sums[0] / max(1.0, sums[1]),)

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        passages = tuple(each for each in results if isinstance(each, ScoredPassage))
        return PartialResult(self.name, scored=passages, notes=tuple(notes))

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        for chunk in batches(result.scored, CSV_CHUNK):
            yield Exhibit("passages.csv", csv=CsvRows(CSV_COLUMNS, tuple(map(_csv_row, chunk))))

    def findings(self, result: PartialResult) -> Findings:
        passages = result.scored
        reference_finite, finite = (all(flags) for flags in zip(*((p.reference_finite, p.finite) for p in passages)))
        values = figures([p for p in passages if p.finite])
        tokens, same = [float(p.tokens) for p in passages], [float(p.same_top) for p in passages]
        change = item_change("same_top", tokens, same, sizes=tokens, agreement=True)
        return Findings(
            metric="perplexity",
            reference=values.get("perplexity_reference"),
            tested=values.get("perplexity_tested"),
            checks=sampled_checks(passages, self.context.request.tolerance) if finite else [],
            in_common=any(p.same_top for p in passages),
            nonfinite=sum(not p.tested_finite for p in passages),
            reference_problem=None if reference_finite else Reason(ReasonKind.REFERENCE_NOT_FINITE),
            counts={"passages": len(passages), "positions": sum(p.tokens for p in passages)},
            figures=values,
            shown=ShownPassages(tuple(map(scores, sorted(passages, key=_divergence)[:SHOWN]))) if finite else None,
            changes=[change] if change is not None else [],
            clusters=len(passages),
            cluster_name="passage",
        )


class WindowScores(msgspec.Struct, frozen=True):
    """The predictions of both models in one window; the fields are those of ``ScoredPassage``."""

    reference_nll: float
    tested_nll: float
    divergences: tuple[float, ...]
    same_top: int
    reference_finite: bool
    tested_finite: bool


def scored(reference: NDArray[Any], tested: NDArray[Any], ids: Sequence[int]) -> WindowScores:
    """Compare the logits [L, V] of both models for the L tokens ``ids``, of which the first one is not predicted.

    Nothing is compared if the logits of either model cannot be judged, or a token has a probability of 0 in fp32.
    """
    import numpy as np
    import torch

    finite = usable(reference, tested)
    is_possible = bool(np.isfinite(reference[range(len(ids) - 1), ids[1:]]).all())
    if not all(finite) or not is_possible:
        return WindowScores(0.0, 0.0, (), 0, finite[0] and is_possible, finite[1])
    targets = torch.tensor(list(ids[1:]))[:, None]
    nll, divergences, same = [0.0, 0.0], [], 0
    for start in range(0, len(targets), CHUNK):
        # The logits at a position are those of the next token.
        stop = min(start + CHUNK, len(targets))
        logs = [torch.from_numpy(each[start:stop]).log_softmax(-1) for each in (reference, tested)]
        for side, log in enumerate(logs):
            nll[side] -= float(log.gather(1, targets[start:stop]).double().sum())
        # Rounding may leave a divergence slightly below 0.
        terms = (logs[0].exp() * (logs[0] - logs[1])).masked_fill(logs[0].isneginf(), 0)  # -inf in both
        divergences += terms.sum(-1).clamp(min=0).tolist()
        same += int((logs[0].argmax(-1) == logs[1].argmax(-1)).sum())
    return WindowScores(nll[0], nll[1], tuple(divergences), same, True, True)


def sampled_checks(passages: Sequence[ScoredPassage], tolerance: Mapping[str, float]) -> list[Check]:
    """Check perplexity, divergence and the most likely tokens, of which the passages are a sample.

    Agreement on tokens lies between 0 and 1, so the bound allows for a passage in which it is 0. Nothing bounds the
    others, so the added passage is an average one.
    """
    count, sizes = len(passages), [float(p.tokens) for p in passages]
    losses = [p.tested_nll - p.reference_nll for p in passages]
    divergences = [math.fsum(p.divergences) for p in passages]
    checks = []
    for name, sums in (("ln_perplexity_ratio", losses), ("token_kl", divergences)):
        mean = Extreme(sum(sums) / count, sum(sizes) / count)
        checks.append(check_ratio(name, draw(sums, sizes, mean, mean), count, tolerance))
    values = [value for p in passages for value in p.divergences]
    owners = [p.index for p in passages for _ in p.divergences]
    tail = check_value("token_kl_p99", _percentile(values, TAIL), tolerance)
    checks.append(check_bounds(tail, *percentile_bounds(values, owners, TAIL, PASSES, FAILS)))
    checks.append(check_shares("same_top", [float(p.same_top) for p in passages], sizes, count, tolerance))
    return checks


def figures(passages: Sequence[ScoredPassage]) -> dict[str, float]:
    """Every figure over all positions; none without positions."""
    tokens = sum(p.tokens for p in passages)
    if not tokens:
        return {}
    reference, tested = (math.fsum(column) for column in zip(*((p.reference_nll, p.tested_nll) for p in passages)))
    values = [value for p in passages for value in p.divergences]
    return {
        "perplexity_reference": perplexity(reference, tokens),
        "perplexity_tested": perplexity(tested, tokens),
        "ln_perplexity_ratio": (tested - reference) / tokens,
        "token_kl": math.fsum(values) / tokens,
        "token_kl_median": _percentile(values, 50),
        "token_kl_p99": _percentile(values, TAIL),
        "token_kl_max": max(values),
        "same_top": sum(p.same_top for p in passages) / tokens,
    }


def perplexity(nll: float, tokens: int) -> float:
    """The perplexity for a sum of negative log-likelihoods in nats, at most that which a double holds."""
    return math.exp(min(nll / tokens, 700.0))


def scores(passage: ScoredPassage) -> PassageScores:
    """What is shown of a passage."""
    return PassageScores(
        name=passage.name,
        tokens=passage.tokens,
        reference_perplexity=perplexity(passage.reference_nll, passage.tokens),
        tested_perplexity=perplexity(passage.tested_nll, passage.tokens),
        mean_kl=math.fsum(passage.divergences) / passage.tokens,
        max_kl=max(passage.divergences),
        same_top=passage.same_top / passage.tokens,
    )


def _divergence(passage: ScoredPassage) -> float:
    """What orders passages: those with the largest mean divergence come first."""
    return -math.fsum(passage.divergences) / passage.tokens


def _csv_row(passage: ScoredPassage) -> tuple[str, ...]:
    if not passage.finite:
        return (passage.name, str(passage.tokens), *["nan"] * (len(CSV_COLUMNS) - 2))
    found = scores(passage)
    perplexities = f"{found.reference_perplexity:.6g}", f"{found.tested_perplexity:.6g}"
    return (
        found.name,
        str(found.tokens),
        *perplexities,
        f"{found.mean_kl:.6g}",
        f"{found.max_kl:.6g}",
        f"{found.same_top:.6g}",
    )


def _percentile(values: Sequence[float], percent: float) -> float:
    """By linear interpolation, as llama.cpp does."""
    import numpy as np

    return float(np.percentile(values, percent))

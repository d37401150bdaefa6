"""The base of a task of a workload's own: every item has a score, and the mean score must not be lost.

The mean is judged as every other metric is: by the threshold ``accuracy``, which requires 99 % of fp32's value with
95 % confidence, and with the interval of its change over the data set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.exhibits import CsvRows, Exhibit
from modelzoo.records.partial import ItemScores, PartialResult, PictureNote
from modelzoo.records.validity import Reason, ReasonKind
from modelzoo.validity.bounds import Extreme, draw
from modelzoo.validity.changes import FEWEST_ITEMS, item_change
from modelzoo.validity.checks import check_ratio
from modelzoo.validity.finite import usable
from modelzoo.validity.protocol import Findings, ItemComparison, ItemResult, PreparedItem, TaskContext

CSV_COLUMNS = ("item", "fp32", "tested")


class ScoredTask:
    """A judging task whose items are independent, and whose predictions are scored one by one.

    A subclass sets ``name``, ``metric`` and ``items``, and defines ``prepare``, ``arguments``, ``predictions`` and
    ``score``; ``modelzoo.validity.protocol.JudgingTask`` describes the others. If the right answers are not part of the
    items or of their files, it also defines ``data_digest``, so that shards that were judged with others are not used.

    Attributes:
        name: what the task is called in results, such as ``regression``.
        metric: what the mean score is called.
        item_name: what an item is called.
        items: the data set, in an order that is the same in every process.
        probe_items: number of items whose layers are compared.
    """

    name = "own"
    metric = "score"
    item_name = "item"
    probe_items = 2
    one_row = True
    compares_output = True
    items: Sequence[Any] = ()

    def __init__(self, context: TaskContext) -> None:
        self.context = context

    def prepare(self, item: Any) -> PreparedItem:
        """Read an item and preprocess it: ``PreparedItem(rows=[row])``."""
        raise NotImplementedError

    def arguments(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """The model's positional arguments for one batch."""
        raise NotImplementedError

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        """One prediction per row: numbers, arrays of numpy, or texts."""
        raise NotImplementedError

    def score(self, item: Any, prediction: Any) -> float:
        """How good a prediction is, from 0 to 1.

        It is only asked of predictions without NaN, and with infinities, if any, that both models have in common.
        """
        raise NotImplementedError

    def comparable_layer(self, name: str) -> bool:
        return True

    def identify(self, item: Any) -> str:
        """What tells an item from others on every host; to be defined for items of other types than these."""
        if isinstance(item, Path):
            return item.name
        if isinstance(item, (str, int, float, tuple)):
            return str(item)
        raise NotImplementedError(f"{type(self).__name__} must define identify for its items ({type(item).__name__})")

    def file_of(self, item: Any) -> Optional[Path]:
        return item if isinstance(item, Path) else None

    def data_digest(self) -> str:
        return ""

    def preparing_threads(self) -> int:
        return 1

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        return output

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> ItemComparison:
        item = self.items[index]
        if len(reference) != 1:
            found = f"{self.identify(item)} has {len(reference)} rows"
            raise UsageError(f"{found}; every item of a ScoredTask must have one")
        finite = usable(reference[0], tested[0], is_logits=False)
        scores = tuple(
            self.score(item, side[0]) if is_finite else 0.0 for side, is_finite in zip((reference, tested), finite)
        )
        for score in scores:
            if not 0 <= score <= 1:
                raise UsageError(f"the score of {self.identify(item)} must be from 0 to 1, not {score}")
        return ItemComparison(ItemScores(index, self.identify(item), scores[0], scores[1], *finite), scores)

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        return self.metric, tuple(each / count for each in sums)

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        return PartialResult(
            self.name,
            item_scores=tuple(each for each in results if isinstance(each, ItemScores)),
            notes=tuple(notes),
        )

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        rows = tuple((each.name, f"{each.reference:.6g}", f"{each.tested:.6g}") for each in result.item_scores)
        yield Exhibit("scores.csv", csv=CsvRows(CSV_COLUMNS, rows))

    def findings(self, result: PartialResult) -> Findings:
        items, tolerance = result.item_scores, self.context.request.tolerance
        reference, tested = [each.reference for each in items], [each.tested for each in items]
        change = item_change(self.metric, reference, tested)
        check = check_ratio("accuracy", draw(tested, reference, Extreme(0, 1), Extreme(1, 0)), len(items), tolerance)
        if change is not None:
            change = replace(change, allowed_loss=(1 - check.required) * change.reference)
        return Findings(
            metric=self.metric,
            reference=sum(reference) / len(items),
            tested=sum(tested) / len(items),
            checks=[check],
            in_common=any(min(pair) > 0 for pair in zip(reference, tested)) or _are_few(reference),
            nonfinite=sum(not each.tested_finite for each in items),
            reference_problem=(
                None if all(each.reference_finite for each in items) else Reason(ReasonKind.REFERENCE_NOT_FINITE)
            ),
            counts={f"{self.item_name}s": len(items)},
            figures={},
            clusters=len(items),
            cluster_name=self.item_name,
            changes=[change] if change is not None else [],
        )


def _are_few(scores: Sequence[float]) -> bool:
    """Whether so few items are right at all that the other model may miss them all by chance."""
    return sum(each > 0 for each in scores) < FEWEST_ITEMS

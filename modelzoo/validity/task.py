"""What a workload declares so that its predictions can be judged: a task.

``Workload.judge`` is a function of the workload's options that returns one: a ``Classification``, ``Detection``,
``Answers`` or ``LanguageModeling``, or an object of a class of the workload's own, most simply of a ``ScoredTask``.
What tasks and their driver (``judging``) exchange is here too: the two models, what is known of the call, and items.
Importing this module does not import torch; the methods do when they are called.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import Exhibit, Shown
from modelzoo.records.partial import JudgedSoFar, PictureNote, Row
from modelzoo.records.validity import (
    Check,
    DataNote,
    MetricChange,
    PublishedQuality,
    Reason,
    ReasonKind,
    ValidityRequest,
)
from modelzoo.validity.checks import FEWEST_ITEMS, check_value, usable
from modelzoo.validity.picture_sets import PictureItem, builtin_crops, reduced
from modelzoo.validity.rows import Metric, Rule, clusters, column, mean, ratio

Progress = Callable[[JudgedSoFar], None]
"""Called after every batch."""
ExhibitSink = Callable[[Exhibit], None]
"""Called with each exhibit as soon as it is complete."""


class Predictor(msgspec.Struct, frozen=True):
    """One of the two models that are compared.

    Attributes:
        call: takes the model's positional arguments (CPU tensors) and returns its output. Autocast, casts and
            copies to a device happen inside.
        precision: ``fp32``, ``tf32``, ``bf16``, ``fp16`` or ``int8``; decides how much rounding error is expected.
        model: the module whose layers can be hooked while ``call`` runs; ``None`` if it is traced or compiled.
        active: returns a context in which the process-wide settings of this model are in force.
        recipe: by which a model in int8 was quantized; decides what is rounded, and how.
    """

    call: Callable[..., Any]
    precision: str = "fp32"
    model: Any = None
    active: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    recipe: str | None = None


class TaskContext(msgspec.Struct, frozen=True):
    """What a task must know besides its declaration.

    Attributes:
        workload: its name, as the ``[VALID]`` line prints it.
        tested_name: what tables call the setting under test.
        significant_bits: of the precision under test, by which near ties are excused; ``None`` in fp32, where none are.
    """

    workload: str
    request: ValidityRequest
    tested_name: str = "tested"
    significant_bits: int | None = None


class PreparedItem(msgspec.Struct, frozen=True):
    """An item as the model takes it.

    Attributes:
        rows: one or more inputs; batches are made of rows (a picture has one, a question one per window).
        notes: how an unusual input was read.
        source: whatever the task needs to interpret the predictions.
    """

    rows: Sequence[Any]
    notes: tuple[PictureNote, ...] = ()
    source: Any = None


def stacked(prepared: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a model that takes one NCHW tensor."""
    import torch

    return (torch.stack(list(prepared)),)


def unchanged(output: Any) -> Any:
    """Return the model's output unchanged."""
    return output


def any_layer(name: str) -> bool:
    """Accept every layer."""
    return True


class Findings(msgspec.Struct, frozen=True):
    """What a task concludes from the rows of all items, before the verdict.

    Attributes:
        figures: of the whole data set, by name; the metric's are ``METRIC``_reference and ``METRIC``_tested, or, for an
            agreement, ``METRIC``.
        checks: of which the items are a sample; not used with random weights.
        changes: how each metric changed, as far as it is known.
        shown: some of the items, for people.
    """

    figures: Mapping[str, float]
    checks: Sequence[Check] = ()
    changes: Sequence[MetricChange | None] = ()
    shown: Shown | None = None


class Task:
    """How the predictions of one kind of model are judged.

    The driver prepares items ahead of the model, makes batches of their rows, calls both models and has the task
    compare the predictions item by item. What an item gives is a ``modelzoo.records.partial.Row``, which shards of a
    data set store and merge, in the same way for all tasks. Only ``findings`` looks at all rows; usually it follows
    from ``metrics`` and ``rules``.

    A subclass defines ``read``, ``prepare``, ``arguments``, ``predictions`` and ``compare``. If the right answers are
    not part of the items or of their files, it also defines ``data_digest``, so that shards that were judged with
    others are not used.

    Attributes:
        name: what the task is called in results.
        metric: name of the metric that decides.
        item_name: what is counted. cluster_name: what was drawn independently.
        probe_items: number of items whose layers are compared.
        one_row: whether every item has one row; otherwise it takes ``prepare`` to know how many it has.
        compares_output: whether the output is judged besides the layers; if not, only if no layer can be observed.
        csv: name and columns of the file that lists all items.
        metrics: whose changes are shown. The first one shows the progress.
        rules: the checks of the rows.
        published: the published quality of the weights in per cent, by metric.
        layers: whether the module of a name computes the same rows in the same order in both models.
        arguments: makes the model's positional arguments of the rows of a batch.
        data_notes: what was found when the items were read, and what the figures depend on besides; set by ``read``.
        context, items: what is judged, in an order that is the same in every process; set by ``judging.bind``.
    """

    name = "own"
    metric = "score"
    item_name = "item"
    cluster_name = ""
    probe_items = 2
    one_row = True
    compares_output = True
    csv: tuple[str, tuple[str, ...]] = ("scores.csv", ("item", "fp32", "tested"))
    metrics: Sequence[Metric] = ()
    rules: Sequence[Rule] = ()
    published: Mapping[str, float] = {}
    layers: Callable[[str], bool] = staticmethod(any_layer)
    arguments: Callable[[Any], tuple[Any, ...]]
    labelled = True
    data_notes: Sequence[DataNote] = ()
    context: TaskContext
    items: Sequence[Any]

    def read(self, request: ValidityRequest) -> Sequence[Any]:
        """Read the list of items of ``request.data``, at most ``request.limit`` (``modelzoo.validity.sampled``).

        Raises:
            InputError: the data set is missing or malformed.
        """
        raise NotImplementedError

    def prepare(self, item: Any) -> PreparedItem:
        """Read an item and preprocess it: ``PreparedItem(rows=[row])``; raise ``InputError`` if that is impossible."""
        raise NotImplementedError

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        """One prediction per row, without torch: numbers, arrays of numpy, or texts."""
        raise NotImplementedError

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        """Compare the predictions for the rows of the item at ``index``."""
        raise NotImplementedError

    def batch_arguments(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """``arguments`` of a batch of what ``prepare`` gave."""
        return self.arguments(rows)

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        """The model's output as one tensor, for the comparison number by number."""
        return output

    def drawn(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> Exhibit | None:
        """A picture of the predictions for the item at ``index``; ``None`` if there is none."""
        return None

    def identify(self, item: Any) -> str:
        """What tells an item from others on every host, but not where its file is."""
        if isinstance(item, Path):
            return item.name
        if isinstance(item, msgspec.Struct):
            return encode_json(item).decode()
        if isinstance(item, (str, int, float, tuple)):
            return str(item)
        raise NotImplementedError(f"{type(self).__name__} must define identify for its items ({type(item).__name__})")

    def file_of(self, item: Any) -> Path | None:
        """The file that holds the item alone; ``None`` if there is none."""
        return item if isinstance(item, Path) else None

    def data_digest(self) -> str:
        """What else of the data set decides the judgement, or its SHA-256 (annotations); empty if there is nothing."""
        return ""

    def preparing_threads(self) -> int:
        """Number of threads that may call ``prepare``."""
        return 1

    def counts(self, rows: Sequence[Row]) -> dict[str, int]:
        """Number of items, and of what else is counted."""
        return {f"{self.item_name}s": len(rows)}

    def in_common(self, rows: Sequence[Row]) -> bool:
        """Whether the two models' predictions have anything in common."""
        return any(row.in_common for row in rows)

    def reference_problem(self, rows: Sequence[Row]) -> Reason | None:
        """Why the reference itself cannot serve as one; ``None`` if it can."""
        is_finite = all(row.reference_finite for row in rows)
        return None if is_finite else Reason(ReasonKind.REFERENCE_NOT_FINITE)

    def findings(self, rows: Sequence[Row]) -> Findings:
        """Figures, checks and changes over all items; there is at least one."""
        figures = self.figures(rows)
        checks = [rule.check(rows, self.context.request.tolerance) for rule in self.rules]
        checks += self.published_check(rows, figures)
        return Findings(figures, checks, [metric.change(rows) for metric in self.metrics], self.shown_items(rows))

    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """The figures of all items, by name."""
        return {name: mean(rows, name) for name in (f"{self.metric}_reference", f"{self.metric}_tested")}

    def shown_items(self, rows: Sequence[Row]) -> Shown | None:
        """Some of the items, for people."""
        return None

    def deviation(self, rows: Sequence[Row], published: float) -> float:
        """Standard deviation of fp32's metric between items, which decides how far it may be from ``published``."""
        values, center = column(rows, f"{self.metric}_reference"), mean(rows, f"{self.metric}_reference")
        return math.sqrt(sum((value - center) ** 2 for value in values) / len(values))

    def published_check(self, rows: Sequence[Row], figures: Mapping[str, float]) -> list[Check]:
        """Check that fp32 itself is near the published quality of the weights; if it is not, the set-up is broken.

        The margin is 3 × deviation ÷ √clusters + 1 ÷ clusters, as if the items of a cluster were all alike. There is no
        check for weights of the user's, or if nothing is published for the metric.
        """
        request, published = self.context.request, self.published.get(self.metric, 0.0) / 100
        if not published or request.own_weights or request.weights_are_random:
            return []
        count, seen = len(set(clusters(rows))), figures[f"{self.metric}_reference"]
        margin = 3 * self.deviation(rows, published) / math.sqrt(count) + 1 / count
        about = PublishedQuality(published, seen, margin, count)
        return [check_value("published", (published - seen) / margin, request.tolerance, about)]


class ScoredTask(Task):
    """A task whose items are independent, and whose predictions are scored one by one.

    The mean score is judged as every other metric is: by the threshold ``accuracy``, which requires 99 % of fp32's
    value with 95 % confidence, and with the interval of its change over the data set. A subclass sets ``name``,
    ``metric`` and ``item_name``, and defines ``read``, ``prepare``, ``arguments``, ``predictions`` and ``score``.
    """

    def score(self, item: Any, prediction: Any) -> float:
        """How good a prediction is, from 0 to 1.

        It is only asked of predictions without NaN, and with infinities, if any, that both models have in common.
        """
        raise NotImplementedError

    @property
    def metrics(self) -> Sequence[Metric]:  # type: ignore[override]
        return (Metric(self.metric),)

    @property
    def rules(self) -> Sequence[Rule]:  # type: ignore[override]
        return (Rule("accuracy", ratio, self.metric),)

    def compare(self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]) -> Row:
        item, name = self.items[index], self.identify(self.items[index])
        if len(reference) != 1:
            raise UsageError(f"{name} has {len(reference)} rows; every item of a ScoredTask must have one")
        finite = usable(reference[0], tested[0], is_logits=False)
        scores = [self.score(item, side[0]) if ok else 0.0 for side, ok in zip((reference, tested), finite)]
        for score in scores:
            if not 0 <= score <= 1:
                raise UsageError(f"the score of {name} must be from 0 to 1, not {score}")
        numbers = {f"{self.metric}_reference": scores[0], f"{self.metric}_tested": scores[1]}
        cells = ((name, *(f"{score:.6g}" for score in scores)),)
        return Row(index, name, numbers, *finite, in_common=min(scores) > 0, cells=cells)

    def in_common(self, rows: Sequence[Row]) -> bool:
        """Not if so many items are right in fp32 that the other model does not miss them all by chance."""
        right = sum(score > 0 for score in column(rows, f"{self.metric}_reference"))
        return right < FEWEST_ITEMS or super().in_common(rows)


class PictureTask(Task):
    """A task whose items are pictures: the user's, or crops of the built-in photograph."""

    item_name = cluster_name = "picture"
    probe_items = 4
    crops, smallest_crop = 32, 0.5

    def builtin(self, request: ValidityRequest, longest: int | None = None) -> list[PictureItem]:
        """The crops, reduced to ``longest`` pixels."""
        self.item_name = "crop"
        count = min(self.crops, request.limit or self.crops)
        return reduced(builtin_crops(count, request.seed, self.smallest_crop), longest)

    def identify(self, item: PictureItem) -> str:
        """Its name, label and crop, and the size of its file, but not the directory that it is in."""
        file = self.file_of(item)
        try:
            size = 0 if file is None else file.stat().st_size
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from error
        return encode_json((item.name, item.label, item.image_id, replace(item.source, path=None), size)).decode()

    def file_of(self, item: PictureItem) -> Path | None:
        return None if item.source.path is None else Path(item.source.path)

    def preparing_threads(self) -> int:
        """As many as the model uses: preparing and predicting alternate."""
        import torch

        return int(torch.get_num_threads())

    def counts(self, rows: Sequence[Row]) -> dict[str, int]:
        photographs = {"photographs": 1} if self.context.request.data is None else {}
        return {**super().counts(rows), **photographs}

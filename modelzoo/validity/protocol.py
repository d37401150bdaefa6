"""What a judging task provides: the protocol between the driver (``judging``) and the tasks, and the models it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Optional, Protocol, Union

import msgspec

from modelzoo.records.exhibits import Exhibit, Shown
from modelzoo.records.partial import (
    AnsweredQuestion,
    ClassifiedPicture,
    DetectedPicture,
    ItemScores,
    JudgedSoFar,
    PartialResult,
    PictureNote,
    ScoredPassage,
)
from modelzoo.records.validity import Check, ClassChange, MetricChange, Reason, Table, ValidityRequest

Progress = Callable[[JudgedSoFar], None]
"""Called after every batch."""
ExhibitSink = Callable[[Exhibit], None]
"""Called with each exhibit as soon as it is complete."""
ItemResult = Union[ClassifiedPicture, DetectedPicture, AnsweredQuestion, ScoredPassage, ItemScores]


class Predictor(msgspec.Struct, frozen=True):
    """One of the two models that are compared.

    Attributes:
        name: what tables call it: ``fp32``, ``bf16=autocast`` ….
        call: takes the model's positional arguments (CPU tensors) and returns its output. Autocast, casts and
            copies to a device happen inside.
        precision: ``fp32``, ``tf32``, ``bf16``, ``fp16`` or ``int8``; decides how much rounding error is expected.
        model: the module whose layers can be hooked while ``call`` runs; ``None`` if it is traced or compiled.
        active: returns a context in which the process-wide settings of this model are in force.
        recipe: by which a model in int8 was quantized; decides what is rounded, and how.
    """

    name: str
    call: Callable[..., Any]
    precision: str = "fp32"
    model: Any = None
    active: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    recipe: Optional[str] = None


class TaskContext(msgspec.Struct, frozen=True):
    """What a task must know besides its declaration.

    Attributes:
        workload: its name, as the ``[VALID]`` line prints it.
        reference_name: what tables call the reference. tested_name: what they call the setting under test.
        significant_bits: of the precision under test, by which near ties are excused; ``None`` in fp32, where none are.
    """

    workload: str
    request: ValidityRequest
    reference_name: str = "fp32"
    tested_name: str = "tested"
    significant_bits: Optional[int] = None


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


class ItemComparison(msgspec.Struct, frozen=True):
    """Both models' predictions for one item, compared.

    Attributes:
        running: numbers that the driver adds up for ``JudgingTask.running_metric``.
        exhibits: what to write about this item.
    """

    result: ItemResult
    running: tuple[float, ...]
    exhibits: tuple[Exhibit, ...] = ()


class Findings(msgspec.Struct, frozen=True):
    """What a task concludes from its results, before the verdict.

    Attributes:
        metric: name of the metric. reference, tested: its values.
        checks: the task's own checks, of which the items are a sample; not used with random weights.
        in_common: whether the two models' predictions have anything in common.
        nonfinite: number of items for which the tested output holds other NaN or Inf than the reference's.
        reference_problem: why the reference itself cannot serve as one; ``None`` if it can.
        counts: number of items, and of what else was counted.
        clusters: number of independent groups of items, from which the checks infer. cluster_name: what one is called.
        labelled: whether the right answers are known.
        shown: some of the items, for people.
        changes: how each metric changed; ``metric`` is one of them if its change is known.
        classes: how each class changed, the one with the largest certain loss first.
        tables: of a task that a workload brings with it, in its own words.
    """

    metric: str
    reference: Optional[float]
    tested: Optional[float]
    checks: Sequence[Check]
    in_common: bool
    nonfinite: int
    reference_problem: Optional[Reason]
    counts: Mapping[str, int]
    figures: Mapping[str, float]
    clusters: int
    cluster_name: str = "picture"
    labelled: bool = True
    shown: Optional[Shown] = None
    changes: Sequence[MetricChange] = ()
    classes: Sequence[ClassChange] = ()
    tables: Sequence[Table] = ()


class JudgingTask(Protocol):
    """How the predictions of one kind of model are judged.

    The driver prepares items ahead of the model, makes batches of their rows, calls both models and has the task
    compare the predictions item by item. The results are records: shards of a data set may be compared separately,
    stored and merged, in the same way for all tasks (``judging.merge``). Only ``findings`` looks at all of them.
    """

    name: str
    """``classification``, ``detection``, ``answers`` or ``language``; a task of a workload's own has another name."""
    item_name: str
    """What is counted: ``picture``, ``question``."""
    context: TaskContext
    items: Sequence[Any]
    """The data set, in an order that is the same in every process."""
    probe_items: int
    """Number of items whose layers are compared."""
    one_row: bool
    """Whether every item has one row; otherwise it takes ``prepare`` to know how many it has."""
    compares_output: bool
    """Whether the output is judged besides the layers; if not, it is judged only if no layer can be observed."""

    def comparable_layer(self, name: str) -> bool:
        """Whether the layer ``name`` computes the same rows in the same order in both models."""

    def identify(self, item: Any) -> str:
        """What tells an item from others, the same on every host: its name and label, but not where its file is."""

    def file_of(self, item: Any) -> Optional[Path]:
        """The file that holds the item alone; ``None`` if there is none."""

    def data_digest(self) -> str:
        """What else of the data set decides the judgement, or its SHA-256 (annotations); empty if there is nothing."""

    def preparing_threads(self) -> int:
        """Number of threads that may call ``prepare``."""

    def prepare(self, item: Any) -> PreparedItem:
        """Read an item and preprocess it.

        Raises:
            InputError: it cannot be read.
        """

    def arguments(self, rows: Sequence[Any]) -> tuple[Any, ...]:
        """The model's positional arguments for one batch."""

    def output_tensor(self, output: Any, rows: Sequence[Any]) -> Any:
        """The model's output as one tensor, for the comparison number by number."""

    def predictions(self, output: Any, rows: Sequence[Any]) -> Sequence[Any]:
        """One prediction per row, without torch."""

    def compare(
        self, index: int, prepared: PreparedItem, reference: Sequence[Any], tested: Sequence[Any]
    ) -> ItemComparison:
        """Compare the predictions for the rows of the item at ``index``."""

    def running_metric(self, sums: Sequence[float], count: int) -> tuple[str, tuple[float, ...]]:
        """The name and the values of the metric so far, from the sums of ``ItemComparison.running`` over ``count``."""

    def partial_result(self, results: Sequence[ItemResult], notes: Sequence[PictureNote]) -> PartialResult:
        """The results as one record."""

    def exhibits(self, result: PartialResult) -> Iterator[Exhibit]:
        """The files that list all items."""

    def findings(self, result: PartialResult) -> Findings:
        """Figures, checks and tables over all items."""


class TaskDeclaration(Protocol):
    """What ``Workload.judge(options)`` returns: one of the declarations in ``modelzoo.validity.task``, or another."""

    def bind(self, context: TaskContext) -> JudgingTask:
        """Read the data set's list of items and return the task.

        Raises:
            InputError: the data set is missing or malformed.
        """


def no_progress(judged: JudgedSoFar) -> None:
    """Show nothing."""


def no_exhibit(exhibit: Exhibit) -> None:
    """Write nothing."""

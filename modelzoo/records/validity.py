"""The judgement of a setting's predictions: what was asked for, what was checked, and the verdict."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Message, OwnData, Public, Word
from modelzoo.records.exhibits import ExplainedLayers, Shown
from modelzoo.records.partial import PictureNote, Unrepeatable


class ValidityVerdict(Word):
    """The verdicts, by the word that is printed and stored."""

    VALID = "VALID"
    NOT_VALID = "NOT VALID"
    INCONCLUSIVE = "INCONCLUSIVE"
    NUMERIC_ONLY = "NUMERIC ONLY"
    CANNOT_JUDGE = "CANNOT JUDGE"


Relation = Annotated[Literal[">=", "<="], PUBLIC]
"""How the observed value must relate to the required one."""


def holds(value: float, relation: Relation, required: float) -> bool:
    """Whether ``value`` relates to ``required`` as it must; NaN never does."""
    return value >= required if relation == ">=" else value <= required


class DataNoteKind(Word):
    """What a data set was found to be like, or how it was read, beyond what its format says."""

    SKIPPED = "skipped"
    UPRIGHT = "EXIF orientation applied"
    UNKNOWN_ORIENTATION = "EXIF orientation not applied"
    SYNONYMS = "synonyms"
    UNKNOWN_CATEGORIES = "unknown categories"
    NO_MASKS = "no masks"
    NUMBERED_CLASSES = "numbered classes"
    SORTED_CLASSES = "sorted classes"
    LABEL_FILE = "label file"
    NO_CLASSES = "no classes"
    CMRC = "scored as CMRC 2018"
    NO_BLANKS = "words without blanks"
    NOT_IN_PASSAGE = "answers outside the passage"


class DataNote(msgspec.Struct, frozen=True):
    """Something about a data set that its figures depend on.

    Attributes:
        kind: what it is.
        count: of the items, classes or objects that it is about.
        names: some of these, or of what stands for them.
    """

    kind: DataNoteKind
    count: int
    names: tuple[OwnData, ...] = ()


class ValidityRequest(msgspec.Struct, frozen=True):
    """What to judge on, and by which thresholds.

    Attributes:
        data: path of the user's data set; ``None`` for the built-in one.
        limit: maximum number of items, sampled with ``seed``.
        seed: seeds the sample and the crops of the built-in photograph.
        tolerance: threshold name to the value that replaces its default.
        batch: items per forward pass.
        explain: report the error of every layer.
        weights_are_random: only numerical agreement can be judged.
        own_weights: the weights are the user's, so the published quality does not apply.
        model_path: directory of the checkpoint, if it is one (it holds the tokenizer).
        pictures: maximum number of inputs whose detections are drawn.
        skip_bad: leave out items that cannot be judged, instead of refusing the data set.
    """

    data: str | None = None
    limit: int | None = None
    seed: int = 0
    tolerance: dict[str, float] = {}
    batch: int = 1
    explain: bool = False
    weights_are_random: bool = False
    own_weights: bool = False
    model_path: str | None = None
    pictures: int = 100
    skip_bad: bool = False


class WorstLayer(msgspec.Struct, frozen=True, tag="layer"):
    """The layer that a check of layers is about.

    Attributes:
        name: the layer; ``None`` if no output was compared.
        explained: the expected rounding error in it; ``None`` if that is not known, or not what is checked.
    """

    name: Public | None
    explained: float | None = None


class PublishedQuality(msgspec.Struct, frozen=True, tag="published"):
    """What fp32 should reach: the published quality, fp32's on this data set, and the margin; from 0 to 1.

    ``clusters`` is the number of independent groups of items that the margin depends on.
    """

    published: float
    seen: float
    margin: float
    clusters: int


class ClassChange(msgspec.Struct, frozen=True, tag="class"):
    """How the items of one class fared: an ImageNet class or group, a COCO category, a kind of question.

    Attributes:
        name: name of the class.
        items: number of items of this class.
        reference: mean quality of these items in fp32, from 0 to 1 (1 for an agreement). tested: under test.
        p_value: that of a loss beyond the threshold ``class_loss``, corrected for the number of classes; ``None`` if
            the class has too few items to be tested.
        broken: whether the loss is significantly beyond the threshold.
    """

    name: Public
    items: int
    reference: float
    tested: float
    p_value: float | None = None
    broken: bool = False

    @property
    def loss(self) -> float:
        """Reference minus tested."""
        return self.reference - self.tested


class Check(msgspec.Struct, frozen=True):
    """A value compared with its threshold.

    Attributes:
        name: name of the threshold, as ``--tolerance`` takes it; ``finite`` and ``in_common`` have no tolerance.
        seen: the observed value; ``None`` if it could not be computed, which never passes.
        relation: how ``seen`` must relate to ``required``.
        required: the threshold in force.
        passed: whether the value relates to ``required`` as it must; with a ``bound``, whether that does.
        would_pass_at: the ``--tolerance`` at which this check would just pass; ``None`` if no value would.
        undecided: whether the value may be on either side of ``required``, so that the check has neither passed nor
            failed.
        bound: the one-sided 95 % bound of the value in the population that the items were drawn from, on the side on
            which it would not pass; ``None`` if ``seen`` is not an estimate, or nothing bounds it.
        more_items: how many more items like these would probably decide; ``None`` if ``undecided`` is false or that is
            not known.
        is_own: whether ``required`` was given by ``--tolerance``.
        about: the layer, the published quality or the class that it is about; ``None`` if it is about all items.
    """

    name: Public
    seen: float | None
    relation: Relation
    required: float
    passed: bool
    would_pass_at: float | None
    undecided: bool = False
    bound: float | None = None
    more_items: int | None = None
    is_own: bool = False
    about: WorstLayer | PublishedQuality | ClassChange | None = None


class ReasonKind(Word):
    """Why a verdict is not VALID."""

    FAILED_CHECKS = "failed checks"
    REFERENCE_NOT_FINITE = "reference not finite"
    REFERENCE_NOT_REPEATABLE = "reference not repeatable"
    NOTHING_DETECTED = "nothing detected"
    FAR_FROM_PUBLISHED = "far from the published quality"
    FEW_CLUSTERS = "few clusters"
    UNDECIDED_CHECKS = "undecided checks"
    FEW_ITEMS = "few items"
    UNKNOWN_ROUNDING = "unknown rounding"
    RANDOM_WEIGHTS = "random weights"
    BUILT_IN_DATA = "built-in data"


class Reason(msgspec.Struct, frozen=True):
    """Why a verdict is not VALID; the checks have the rest.

    Attributes:
        kind: why.
        required: what a judgement requires: clusters, items, or the score from which a detection counts.
        more_items: how many more items like these would probably decide; ``None`` if that is not known.
        unrepeatable: how the reference differs from itself, if that is why.
    """

    kind: ReasonKind
    required: int | float | None = None
    more_items: int | None = None
    unrepeatable: Unrepeatable | None = None


class MetricChange(msgspec.Struct, frozen=True):
    """How a metric changed from fp32 to the setting under test, over the same items; its values are from 0 to 1.

    Attributes:
        metric: name of the metric, as in ``Validity.metric``.
        reference: the metric in fp32 (1 for an agreement). tested: of the setting under test.
        low: lower end of the 95 % interval of tested minus reference. high: its upper end.
        detectable_loss: the smallest loss that this data set would have shown; smaller ones cannot be seen.
        items: number of items that are compared.
        worse: items that scored lower under test; ``None`` if the metric is no mean over items.
        better: items that scored higher, likewise.
        p_value: of McNemar's exact test, two-sided; ``None`` unless the items are independent and right or wrong.
        allowed_loss: the largest loss within the threshold; ``None`` if there is no threshold for this metric.
        possible_loss: the largest loss that the items do not rule out, at a one-sided confidence of 95 %.
    """

    metric: Public
    reference: float
    tested: float
    low: float
    high: float
    detectable_loss: Annotated[float, msgspec.Meta(gt=0)]
    possible_loss: float
    items: int
    worse: int | None = None
    better: int | None = None
    p_value: float | None = None
    allowed_loss: float | None = None

    @property
    def change(self) -> float:
        """Tested minus reference: a loss is negative."""
        return self.tested - self.reference


class ClassLosses(msgspec.Struct, frozen=True):
    """What the classes of a data set lost.

    Attributes:
        worst: the classes with the largest losses, largest first.
        classes: number of all classes. tested: of those that have at least ``fewest`` items.
        limit: the loss, from 0 to 1, beyond which a class is broken.
        significance: the p-value below which it is.
    """

    worst: tuple[ClassChange, ...]
    classes: int
    tested: int
    fewest: int
    limit: float
    significance: float


class Validity(msgspec.Struct, frozen=True):
    """The judgement of one setting of one workload.

    Attributes:
        workload: the workload's name.
        task: the kind of task: ``classification``, ``detection``, ``answers``, ``language``, or a task
            of the workload's own.
        metric: name of the metric that decides, such as ``top1``, ``top1_agreement``, ``box_ap``,
            ``detection_agreement``, ``f1``, ``tensor_error`` or that of a task of the workload's own.
        reference: the metric in fp32 (1 for an agreement); ``None`` if it has no value.
        tested: the metric of the setting under test.
        verdict: the verdict on the predictions.
        exit_code: 0 valid (or numerical agreement only), 1 not valid, 2 inconclusive or could not be judged.
        item: what is counted: ``picture``, ``crop``, ``question``. items: their number.
        cluster: what was drawn independently: ``picture``, ``passage``. clusters: their number.
        labelled: whether the right answers are known, so that quality can be judged and not agreement only.
        small: whether the built-in data set was used.
        reason: why the verdict is not VALID; ``None`` if it is.
        checks: every value that was compared with a threshold.
        changes: how each metric changed, with its interval; empty with random weights.
        classes: what the classes lost; ``None`` if there are none, or with random weights.
        shown: some of the items.
        layers: what ``--explain`` shows; ``None`` without it.
        counts: number of images, crops, photographs, questions ….
        figures: every figure by name, from 0 to 1 for accuracies; figures that are not finite are left out.
        notes: how unusual inputs were read. data_notes: likewise, of the data set.
        reference_name: what tables call the reference.
        tested_name: what tables call the setting under test.
    """

    workload: Public
    task: Public
    metric: Public
    reference: float | None
    tested: float | None
    verdict: ValidityVerdict
    exit_code: int
    item: Public
    items: int
    cluster: Public
    clusters: int
    labelled: bool = True
    small: bool = False
    reason: Reason | None = None
    checks: tuple[Check, ...] = ()
    changes: tuple[MetricChange, ...] = ()
    classes: ClassLosses | None = None
    shown: Shown | None = None
    layers: ExplainedLayers | None = None
    counts: dict[str, int] = {}
    figures: dict[str, float] = {}
    notes: tuple[PictureNote, ...] = ()
    data_notes: tuple[DataNote, ...] = ()
    reference_name: Message = "fp32"
    tested_name: Message = "tested"

    @property
    def deciding_change(self) -> MetricChange | None:
        """How the metric that decides changed, if that is known."""
        return next((each for each in self.changes if each.metric == self.metric), None)

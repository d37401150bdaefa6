"""What was timed in one process, with stages or tokens of a call, and how the rounds of a workload were planned."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Public, Word

LATENCY, ISSUE, DEVICE = "latency", "issue", "device"
"""Names of the series that a clock records: the time from the start of a call to its result; that in which the host
issued the work to an accelerator, which is never a latency; and that between two device events around the work. See
``modelzoo.measure.sampler``."""

Time = Annotated[float, msgspec.Meta(gt=1e-12, lt=1e9)]
"""What a call can take: see ``is_time``."""


def is_time(seconds: float) -> bool:
    """Whether a call can take ``seconds``: none takes a picosecond or 30 years."""
    return 1e-12 < seconds < 1e9


WarmUpEnd = Annotated[Literal["settled", "cap", "few", "fixed"], PUBLIC]
"""Why the warm-up ended.

``settled``: timings had stabilized. ``cap``: the time limit of the warm-up was reached while timings still
changed. ``few``: the limit was reached after too few calls to judge. ``fixed``: the number of calls was given."""


SamplingStop = Annotated[Literal["interval", "time limit", "iterations"], PUBLIC]
"""Why sampling stopped: the interval was narrow enough, the time was up, or all iterations were done."""


class Series(msgspec.Struct, frozen=True):
    """Raw samples of one quantity in seconds, in the order in which they were taken; outliers are kept.

    Attributes:
        name: unique within a run: one of ``RESERVED_NAMES``, which say what it is, or a stage's name.
        values: one value per call (``BETWEEN_TOKENS``: per token of a call after its first).
    """

    name: Public
    values: tuple[Annotated[float, msgspec.Meta(ge=0)], ...]


class Timing(msgspec.Struct, frozen=True):
    """Everything that was timed in one process.

    Attributes:
        cold_start: latency of the first timed call, in seconds. Compiling a model calls it before that.
        warmup: the watched quantity of each warm-up call, in order.
        series: what was recorded after the warm-up, at least the watched series.
        watched: name of the series that the warm-up follows.
        warmup_end: why the warm-up ended.
        stop: why sampling stopped.
    """

    cold_start: Time
    warmup: tuple[Time, ...]
    series: tuple[Series, ...]
    watched: Public
    warmup_end: WarmUpEnd
    stop: SamplingStop

    def __post_init__(self) -> None:
        """Raises ``ValueError`` if nothing was sampled, or a time is not possible."""
        if not self.steady or not all(map(is_time, self.steady)):
            raise ValueError("no time was sampled, or one that is not possible")

    @property
    def steady(self) -> tuple[float, ...]:
        """Steady-state samples of the watched series."""
        return self.values(self.watched)

    def find(self, name: str) -> Series | None:
        """The series called ``name``, or ``None`` if this run recorded no such series."""
        return next((each for each in self.series if each.name == name), None)

    def values(self, name: str) -> tuple[float, ...]:
        """The values of the series called ``name``; empty if this run recorded no such series."""
        found = self.find(name)
        return found.values if found else ()


MODEL = "model"
"""Name of the stage that runs the model."""
TO_DEVICE, TO_HOST = "copy to device", "copy to host"
"""Names of the stages that copy between the host and an accelerator."""
SYNCHRONIZED = "synchronized"
"""Series of the end-to-end times with a synchronization after each stage; only on an accelerator."""
UNDIVIDED = "undivided"
"""Series of the end-to-end times without timestamps between the stages; only on a CPU."""
FIRST_TOKEN, PER_TOKEN = "time to first token", "time per output token"
"""Series of a generation: seconds to the first new token (TTFT), and the mean of those between two tokens (TPOT)."""
BETWEEN_TOKENS = "between tokens"
"""Series of the seconds between any two tokens that follow each other."""
RESERVED_NAMES = (
    *(LATENCY, ISSUE, DEVICE, MODEL, TO_DEVICE, TO_HOST, SYNCHRONIZED, UNDIVIDED),
    *(FIRST_TOKEN, PER_TOKEN, BETWEEN_TOKENS),
)
"""Names that a workload cannot give to a stage."""


def model_times(timing: Timing) -> tuple[float, ...]:
    """Seconds of the model: of its stage if a pipeline was timed, else the steady samples themselves."""
    return timing.values(MODEL) or timing.steady


class Place(Word):
    """Where a stage works: on the host's CPU in any case, or on the setting's device."""

    HOST = "host"
    DEVICE = "device"


class PipelineStage(msgspec.Struct, frozen=True):
    """One stage, in the order in which they run.

    Attributes:
        name: that of its series.
        place: where it works.
        timed_by_events: whether its time is that between two events of an asynchronous device; else it was taken by the
            host's clock.
    """

    name: Public
    place: Place
    timed_by_events: bool = False


class Generated(msgspec.Struct, frozen=True):
    """What each call of a language model generated, always the same number of tokens.

    Attributes:
        prompt_tokens: tokens of each prompt of the batch.
        new_tokens: tokens that were generated for each of them.
    """

    prompt_tokens: Annotated[int, msgspec.Meta(ge=1)]
    new_tokens: Annotated[int, msgspec.Meta(ge=2)]


class StopReason(Word):
    """Why no more rounds of a workload were run.

    ``FIXED``: the number of processes was given, or fixed in advance because the processes are expensive, or it is 1
    because an emulator runs them.
    ``PRECISE``: the intervals are narrow enough and every comparison is decided. ``BUDGET``: the time was used up.
    ``FAILED``: no setting could run. ``INTERRUPTED``: by the user, or by an error.
    """

    FIXED = "fixed"
    PRECISE = "precise"
    BUDGET = "budget"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class Design(msgspec.Struct, frozen=True):
    """The plan of one workload's rounds, and how it ended.

    Attributes:
        workload: the workload's name.
        margin: half width of the 95 % interval that was wanted, relative to the latency.
        budget: seconds that the call had for all of its workloads; ``None``: no limit.
        processes: number of processes per setting if it was fixed before any was timed; ``None`` if the data decided.
        looks: numbers of rounds at which a verdict may be concluded, in ascending order.
        maximum: number of rounds that the budget was expected to allow when the looks were planned.
        seconds: how long each process sampled, by round.
        stop_reason: why no more rounds were run; ``None`` while they run.
    """

    workload: Public
    margin: float
    budget: float | None = None
    processes: int | None = None
    looks: tuple[int, ...] = ()
    maximum: int | None = None
    seconds: tuple[float, ...] = ()
    stop_reason: StopReason | None = None

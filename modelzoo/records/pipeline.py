"""The stages of a pipeline that was timed, and the names of their series."""

from __future__ import annotations

from enum import Enum

import msgspec

from modelzoo.records.timing import DEVICE, ISSUE, LATENCY, Role, Timing

MODEL = "model"
"""Name of the stage that runs the model."""
TO_DEVICE, TO_HOST = "copy to device", "copy to host"
"""Names of the stages that copy between the host and an accelerator."""
SYNCHRONIZED = "synchronized"
"""Series of the end-to-end times with a synchronization after each stage; only on an accelerator."""
UNDIVIDED = "undivided"
"""Series of the end-to-end times without time stamps between the stages; only on a CPU."""
PER_BATCH = "per batch"
"""Series of the seconds per finished batch while several are in flight."""
RESERVED_NAMES = (LATENCY, ISSUE, DEVICE, MODEL, TO_DEVICE, TO_HOST, SYNCHRONIZED, UNDIVIDED, PER_BATCH)
"""Names that a workload cannot give to a stage."""


_ROLES = {
    LATENCY: Role.LATENCY,
    ISSUE: Role.ISSUE,
    DEVICE: Role.DEVICE,
    SYNCHRONIZED: Role.LATENCY,
    UNDIVIDED: Role.LATENCY,
    PER_BATCH: Role.INTERVAL,
}


def role_of(name: str) -> Role:
    """What the series ``name`` stands for; names that are not reserved are those of stages."""
    return _ROLES.get(name, Role.STAGE)


def model_times(timing: Timing) -> tuple[float, ...]:
    """Seconds of the model: of its stage if a pipeline was timed, else the steady samples themselves."""
    return timing.values(MODEL) or timing.steady


class Place(str, Enum):
    """Where a stage works: on the host's CPU in any case, or on the setting's device."""

    HOST = "host"
    DEVICE = "device"

    def __str__(self) -> str:
        return self.value


class PipelineStage(msgspec.Struct, frozen=True):
    """One stage, in the order in which they run.

    Attributes:
        name: that of its series.
        place: where it works.
        timed_by_events: whether its time is that between two events of an asynchronous device; else it was taken by the
            host's clock.
    """

    name: str
    place: Place
    timed_by_events: bool = False


class Pipeline(msgspec.Struct, frozen=True):
    """The pipeline that a process timed.

    Attributes:
        stages: all stages, the model and copies included.
        in_flight: batches in it at the same time.
    """

    stages: tuple[PipelineStage, ...]
    in_flight: int = 1

"""What workers may answer.

A worker in a container runs a stranger's code. What it says of itself may be wrong, but it decides nothing about this
machine: which files are shown to containers, and which are read here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Optional, Union

from modelzoo.errors import WorkerError
from modelzoo.formatting import printable
from modelzoo.frozen import replace
from modelzoo.measure.mounts import CACHES, is_within
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.fleet import ShardPlan
from modelzoo.records.protocol import (
    Exhibited,
    Failed,
    Job,
    Judged,
    Located,
    Measured,
    MeasureJob,
    Message,
    Preparation,
    PrepareJob,
    Progress,
    SettingsPrepared,
    ShardsPlanned,
    ValidateJob,
)
from modelzoo.records.workload import LocalWeights, Weights
from modelzoo.setting import Setting

LONGEST_PHASE = 200
"""Characters of a phase that are shown."""
LONGEST_PLACE = 1000
"""Characters that are shown of where a worker is."""
MAX_PIXELS = 128_000_000
"""Of a crop or a mask; larger pictures are reduced when they are read (``modelzoo.workload.inputs``)."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEPT = ("weights", "input", "device", "python", "image")
"""Fields of a setting that no engine decides."""


def accepted(
    message: Message, job: Job, shown: Optional[Collection[str]] = None, cache: Optional[str] = None
) -> Message:
    """Return ``message`` in a form that the parent can rely on.

    Args:
        message: what a worker has answered, with the paths of this machine.
        job: what it was asked, as for a worker on this machine.
        shown: the files of this machine that it was shown, if it is in a container; ``None``: it sees all of them.
        cache: the name of the cache of its image, if it is in a container.

    Raises:
        WorkerError: no worker of the suite would answer this.
    """
    if isinstance(message, Failed):
        return replace(message, error=printable(message.error))
    if isinstance(message, Progress):
        return replace(message, phase=printable(message.phase[:LONGEST_PHASE]), silence=None)
    if isinstance(message, Located):
        return Located(printable(message.where[:LONGEST_PLACE]))
    if isinstance(message, SettingsPrepared) and isinstance(job, PrepareJob):
        if len(message.settings) != len(job.settings):
            raise WorkerError(f"the worker answered for {len(message.settings)} settings, not {len(job.settings)}")
        return SettingsPrepared(
            tuple(_preparation(*each, job, shown, cache) for each in zip(job.settings, message.settings))
        )
    if isinstance(message, Exhibited):
        _check_exhibit(message.exhibit, shown)
    if isinstance(message, ShardsPlanned):
        _check_plan(message.plan)
    if isinstance(message, (Measured, Judged)) and isinstance(job, (MeasureJob, ValidateJob)):
        _check_report(message, job)
    return message


def _preparation(
    requested: Setting, found: Preparation, job: PrepareJob, shown: Optional[Collection[str]], cache: Optional[str]
) -> Preparation:
    """What a worker may decide about the setting ``requested``."""
    prepared = found.prepared
    if prepared is None:
        return Preparation(error=printable(found.error or "the setting was not resolved"), error_kind=found.error_kind)
    for name in _KEPT:
        if getattr(prepared.setting, name) != getattr(requested, name):
            raise WorkerError(f"the worker resolved another setting than it was asked for: {name} differs")
    for name, value in (*found.variables.items(), *found.validation_variables.items()):
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise WorkerError(f"the worker asks for a variable {printable(name)!r}, which no process can have")
    prepared = replace(prepared, weights=_known(prepared.weights, job, shown, cache))
    return replace(found, prepared=prepared, math_mode=job.math_mode, error=None, error_kind="")


def _known(weights: Weights, job: PrepareJob, shown: Optional[Collection[str]], cache: Optional[str]) -> Weights:
    """Weights in a file of this machine become ``LocalWeights``; a container may only choose among what it is shown."""
    for each in job.earlier:
        if each.prepared is not None and each.prepared.weights.path == weights.path:
            return each.prepared.weights
    if shown is None or is_within(weights.path, shown):
        return LocalWeights(*(getattr(weights, name) for name in Weights.__struct_fields__))
    if is_within(weights.path, [str(CACHES)]) and not is_within(weights.path, [cache or ""]):
        raise WorkerError(f"the worker names {printable(weights.path)}, in the cache of an image that it was not shown")
    return weights


def _check_exhibit(exhibit: Exhibit, shown: Optional[Collection[str]]) -> None:
    """The parent writes it, reads the picture with the rights of the user, and allocates memory for what it draws."""
    for part, suffix in ((exhibit.csv, ".csv"), (exhibit.layer_errors, ".png")):
        if part is not None and not exhibit.name.endswith(suffix):
            raise WorkerError(f"the worker calls an exhibit {printable(exhibit.name)}, which does not end in {suffix}")
    picture = exhibit.detections
    if picture is None:
        return
    path = picture.source.path
    if path is not None and shown is not None and not is_within(path, shown):
        raise WorkerError(f"the worker wants to draw on {printable(path)}, a file that it was not shown")
    left, top, right, bottom = picture.source.crop or (0, 0, 1, 1)
    sizes = [(right - left, bottom - top), picture.reference.mask_size, picture.tested.mask_size]
    if min(left, top) < 0 or any(min(size) < 0 or size[0] * size[1] > MAX_PIXELS for size in sizes):
        raise WorkerError("the worker describes a crop or a mask that is larger than any image")


def _check_plan(plan: ShardPlan) -> None:
    """The identities of shards name files."""
    if not plan.shards or not all(each.identity.isalnum() and each.identity.isascii() for each in plan.shards):
        raise WorkerError("the worker divides the data set into no shards, or into shards that have no name")


def _check_report(message: Union[Measured, Judged], job: Union[MeasureJob, ValidateJob]) -> None:
    found, given = message.report.prepared, job.assignment.prepared
    if found.setting != given.setting:
        raise WorkerError("the worker answered for another setting than it was given")
    if any(getattr(found.weights, name) != getattr(given.weights, name) for name in Weights.__struct_fields__):
        raise WorkerError("the worker answered for other weights than it was given")
    timing = message.report.timing if isinstance(message, Measured) else None
    if timing is not None and (not timing.steady or min(timing.steady) <= 0):
        raise WorkerError("the worker sent no samples, or some that are not positive")

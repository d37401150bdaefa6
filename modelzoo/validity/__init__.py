"""Judge a setting's predictions against fp32's: by task, with thresholds that have a source.

A workload declares its task (``Classification``, ``Detection`` or ``Answers``) in ``Workload.judge``; a
worker makes two ``Side``s and a ``ValidityRequest`` and calls ``judge``. Importing this package imports no torch.
"""

from __future__ import annotations

from modelzoo.errors import UsageError
from modelzoo.report.validity import tables
from modelzoo.validity.imagenet import wnids
from modelzoo.validity.outcome import (
    CANNOT_JUDGE,
    NOT_VALID,
    NUMERIC_ONLY,
    VALID,
    Check,
    Job,
    Progress,
    Side,
    Table,
    Validity,
    ValidityRequest,
    from_json,
    line,
    no_progress,
)
from modelzoo.validity.task import Answers, Classification, Detection, listed, stacked
from modelzoo.validity.thresholds import LIMITS, verified

__all__ = [
    "CANNOT_JUDGE",
    "LIMITS",
    "NOT_VALID",
    "NUMERIC_ONLY",
    "VALID",
    "Answers",
    "Check",
    "Classification",
    "Detection",
    "Progress",
    "Side",
    "Table",
    "Validity",
    "ValidityRequest",
    "from_json",
    "judge",
    "line",
    "listed",
    "stacked",
    "tables",
    "wnids",
]


def judge(
    workload: str,
    task: Classification | Detection | Answers,
    reference: Side,
    tested: Side,
    request: ValidityRequest,
    progress: Progress = no_progress,
) -> Validity:
    """Run both sides over the same inputs and judge ``tested`` by the task's own measures.

    Args:
        workload: the word in the ``[VALID]`` line and in the names of the files written.
        task: what the workload declares.
        reference: fp32, eager. Its layers are hooked, and for one pass its weights are rounded.
        tested: the setting under test, with the same weights.
        request: data, limits and tolerances.
        progress: called after every batch.

    Raises:
        InputError: the data is missing, unreadable, empty or of the wrong shape.
        UsageError: a tolerance that does not exist, a limit or batch below 1.
    """
    verified(request.tolerance)
    for name in ("limit", "batch"):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be 1 or more, not {value}")
    job = Job(workload, task, reference, tested, request)
    if isinstance(task, Classification):
        from modelzoo.validity import classification

        return classification.judge(job, progress)
    if isinstance(task, Detection):
        from modelzoo.validity import detection

        return detection.judge(job, progress)
    if isinstance(task, Answers):
        from modelzoo.validity import answers

        return answers.judge(job, progress)
    raise UsageError(f"workload {workload} does not say how its predictions are judged: set judge in its workload.py")

"""Judge a setting's predictions against fp32's, by task, with thresholds that have a source.

A workload declares its task: ``Workload.judge(options)`` returns a ``Classification``, ``Detection`` or ``Answers``.
``judge`` runs two ``Predictor``s over a data set and returns a ``Validity``. Judging writes no files: what explains a
judgement is handed to a callback as an ``Exhibit``. Importing this package does not import torch, and declaring a task
does not import what judges it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from modelzoo.records.validity import Validity, ValidityRequest, ValidityVerdict
from modelzoo.validity.picture_sets import wnids
from modelzoo.validity.protocol import JudgingTask, Predictor, TaskContext, TaskDeclaration
from modelzoo.validity.squad import Question, Windows, best_span, paragraph_offsets
from modelzoo.validity.task import Answers, Classification, Detection, listed, qa_arguments, stacked

if TYPE_CHECKING:
    from modelzoo.validity.checks import LIMITS
    from modelzoo.validity.judging import bind, compare, conclude, judge, merge

__all__ = [
    "LIMITS",
    "Answers",
    "Classification",
    "Detection",
    "JudgingTask",
    "Predictor",
    "Question",
    "TaskContext",
    "TaskDeclaration",
    "Validity",
    "ValidityRequest",
    "ValidityVerdict",
    "Windows",
    "best_span",
    "bind",
    "compare",
    "conclude",
    "judge",
    "listed",
    "merge",
    "paragraph_offsets",
    "qa_arguments",
    "stacked",
    "wnids",
]
_HOME = {"LIMITS": "checks"} | dict.fromkeys(("bind", "compare", "conclude", "judge", "merge"), "judging")
"""Modules that are imported when one of these names is first used: who times a workload judges nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

"""The conditions that may distort what a call found, and its failures, each said once. Pure.

Conditions are grouped by their code, with the rows they concern and the hint, the most harmful first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import reduce

from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import by_workload, short_names
from modelzoo.warning import Severity, WarningMessage, rank

NAMED_SETTINGS = 4
"""A condition names the settings of a workload that it concerns up to this many, then only counts them."""
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
_TOKEN = re.compile(r"[()]|\s+|[^\s()]+")


@dataclass(frozen=True)
class Condition:
    """A condition that may distort results.

    Attributes:
        code: of the warning.
        severity: what it does to the result.
        concerns: the rows that it concerns, as text; empty if it concerns all.
        message: what it is; numbers that differ between rows are merged to a range.
        hint: how to fix it.
    """

    code: str
    severity: Severity
    concerns: str
    message: str
    hint: str


def grouped_conditions(shown: Sequence[SummaryRow]) -> list[Condition]:
    """Return what may distort these rows, each code once, the most harmful first."""
    found: dict[str, list[tuple[SummaryRow, WarningMessage]]] = {}
    for each in shown:
        for one in each.warnings:
            found.setdefault(one.warning.code, []).append((each, one.warning))
    return [_condition(code, found[code], shown) for code in sorted(found, key=rank)]


def _condition(code: str, found: Sequence[tuple[SummaryRow, WarningMessage]], shown: Sequence[SummaryRow]) -> Condition:
    messages = [warning.message for _, warning in found]
    hints = [warning.hint for _, warning in found]
    concerned = list({id(each): each for each, _ in found}.values())
    return Condition(code, rank(code)[0], concerns(concerned, shown), merged(messages), merged(hints))


def grouped_failures(shown: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """Return which rows failed, with the reason; rows with the same reason together."""
    found: dict[str, list[SummaryRow]] = {}
    for each in shown:
        for error in each.errors:
            found.setdefault(error, []).append(each)
    return [(", ".join(f"{each.workload} {each.label}" for each in rows), error) for error, rows in found.items()]


def concerns(rows: Sequence[SummaryRow], shown: Sequence[SummaryRow]) -> str:
    """Name ``rows`` among all that are ``shown``: ``resnet50, ssd bf16``; empty if they are all of them."""
    if len(rows) == len(shown):
        return ""
    every = by_workload(shown)
    parts = []
    for workload, concerned in by_workload(rows).items():
        names = dict(zip(map(id, every[workload]), short_names(every[workload])))
        if len(concerned) == len(every[workload]):
            parts.append(workload)
        elif len(concerned) > NAMED_SETTINGS:
            of = f" of {workload}" if len(every) > 1 else ""
            parts.append(f"{len(concerned)} of {len(every[workload])} settings{of}")
        else:
            listed = ", ".join(names[id(each)] for each in concerned)
            parts.append(f"{workload} {listed}" if len(every) > 1 else listed)
    return "; ".join(parts)


def merged(texts: Sequence[str]) -> str:
    """Return one text for several: a number that differs becomes a range, other words that differ an ellipsis.

    >>> merged(["used 0.96 cores", "used 0.17 cores"])
    'used 0.17 to 0.96 cores'
    """
    different = list(dict.fromkeys(texts))
    shapes = {_NUMBER.sub("#", text) for text in different}
    if len(shapes) > 1:
        return reduce(_common, different)
    numbers = [_NUMBER.findall(text) for text in different]
    ranges = iter([_range(column) for column in zip(*numbers)])
    return _NUMBER.sub(lambda _: next(ranges), different[0])


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(numbers, key=lambda number: float(number.replace(",", "")))
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def _common(first: str, second: str) -> str:
    """What two texts share, with an ellipsis for each stretch in which they differ."""
    a, b = _TOKEN.findall(first), _TOKEN.findall(second)
    parts: list[str] = []
    for kind, start, end, _, _ in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind == "equal":
            parts.append("".join(a[start:end]))
        elif not parts or parts[-1] != "…":
            parts.append("…")
    return "".join(parts)

"""The conditions that may distort what a call found, and its failures, each said once. Pure.

Conditions are grouped by their code, with the rows they concern and the hint, the most harmful first.
"""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Notice, Text
from modelzoo.formatting import Merged
from modelzoo.results.summary import SummaryRow
from modelzoo.views.differences import by_workload, short_names
from modelzoo.views.proof import agreement_text
from modelzoo.warning import Severity, WarningCode, WarningMessage, rank

NAMED_SETTINGS = 4
"""A condition names the settings of a workload that it concerns up to this many, then only counts them."""
SEVERITY_WORD = {Severity.INVALIDATES: "invalid", Severity.DISTORTS: "warning", Severity.NOTE: "note"}
"""What a condition begins with."""


def conditions(rows: Sequence[SummaryRow]) -> list[Notice]:
    """Return what failed, and what may distort these rows, the most harmful first."""
    failed = [Notice(Severity.INVALIDATES, "failed", names, Text(error)) for names, error in _failures(rows)]
    found: dict[str, list[tuple[SummaryRow, WarningMessage]]] = {}
    for row in rows:
        for each in row.warnings:
            found.setdefault(each.warning.code, []).append((row, each.warning))
    return failed + [_condition(code, found[code], rows) for code in sorted(found, key=rank)]


def _condition(code: str, found: Sequence[tuple[SummaryRow, WarningMessage]], rows: Sequence[SummaryRow]) -> Notice:
    severity, _ = rank(code)
    message, hint = merged(found)
    concerned = list({id(row): row for row, _ in found}.values())
    return Notice(severity, SEVERITY_WORD[severity], concerns(concerned, rows), Text(message), Text(hint))


def merged(found: Sequence[tuple[SummaryRow, WarningMessage]]) -> tuple[str, str]:
    """Return one message and one hint for the warnings of a code of several rows."""
    message, hint = _words([warning for _, warning in found])
    agreements = [row.agreement for row, _ in found if row.agreement is not None and row.agreement.is_same is False]
    if found[0][1].code == WarningCode.OTHER_OUTPUTS.name and agreements:
        message += f": {agreement_text(agreements)}"
    return message, hint


def _words(warnings: Sequence[WarningMessage]) -> tuple[str, str]:
    """Numbers that differ become a range; of words that differ, each is said once."""
    messages, hints = ({each.message: None for each in warnings}, {each.hint: None for each in warnings})
    code = WarningCode.__members__.get(warnings[0].code)
    names = [set(each.values) for each in warnings]
    if len(messages) == len(hints) == 1 or code is None or not all(names) or any(each != names[0] for each in names):
        return "; ".join(messages), "; ".join(hints)
    values = {name: Merged(each.values[name] for each in warnings) for name in names[0]}
    try:
        return code.value[1].format_map(values), code.value[2].format_map(values)
    except (LookupError, ValueError, TypeError):  # the values of a stored result may be of another version
        return "; ".join(messages), "; ".join(hints)


def _failures(rows: Sequence[SummaryRow]) -> list[tuple[str, str]]:
    """Which rows failed, with the reason; rows with the same reason together."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for error in row.errors:
            found.setdefault(error, []).append(f"{row.workload} {row.label}")
    return [(", ".join(names), error) for error, names in found.items()]


def concerns(concerned: Sequence[SummaryRow], rows: Sequence[SummaryRow]) -> str:
    """Name some of all ``rows``: ``resnet50, ssd bf16``; empty if they are all of them."""
    if len(concerned) == len(rows):
        return ""
    every = by_workload(rows)
    parts = []
    for workload, some in by_workload(concerned).items():
        names = dict(zip(map(id, every[workload]), short_names(every[workload])))
        if len(some) == len(every[workload]):
            parts.append(workload)
        elif len(some) > NAMED_SETTINGS:
            of = f" of {workload}" if len(every) > 1 else ""
            parts.append(f"{len(some)} of {len(every[workload])} settings{of}")
        else:
            listed = ", ".join(names[id(each)] for each in some)
            parts.append(f"{workload} {listed}" if len(every) > 1 else listed)
    return "; ".join(parts)

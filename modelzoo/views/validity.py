"""A judgement as the ``[VALID]`` line, as tables, and what was written for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Optional

from modelzoo.document import Block, Column, Notice, Notices, Table, Text, Tone, lines
from modelzoo.formatting import MISSING
from modelzoo.records import validity as records
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import ValidityEntry
from modelzoo.records.validity import Relation, Validity, ValidityVerdict
from modelzoo.warning import Severity

PICTURES = "_pictures"
"""End of the name of the directory that holds the pictures of a judgement."""


def valid_line(validity: Validity) -> str:
    """The last line on stdout: ``[VALID] <workload> <metric> <fp32> <tested> <verdict>``.

    In parentheses follows why the predictions are neither VALID nor NOT VALID; with NOT VALID, the size of the built-in
    data set, if that was used.
    """
    values = [_value(validity.reference), _value(validity.tested)]
    text = " ".join(["[VALID]", validity.workload, validity.metric, *values, validity.verdict.value])
    if validity.verdict not in (ValidityVerdict.VALID, ValidityVerdict.NOT_VALID):
        return f"{text} ({validity.reason})"
    return f"{text} ({validity.scope})" if validity.small else text


def _value(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def document(entry: ValidityEntry) -> list[Block]:
    """Return a judgement's tables, what was written, and a warning if bf16 did not run; or why there is none."""
    if entry.report is None:
        error = Text(entry.error or "it could not be judged")
        return [Notices((Notice(Severity.INVALIDATES, "failed", entry.workload, error),))]
    found: list[Block] = [*_tables(entry.report.validity)]
    written = _written(entry.files)
    found += [lines(*written)] if written else []
    tested = entry.report.tested
    if entry.asked.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        why = tested.canary.summary if tested.canary is not None else tested.canary_problem or ""
        message = Text(f"{entry.asked.precision} is {tested.canary_verdict} in this process: {why}")
        found.append(Notices((Notice(Severity.DISTORTS, "warning", "", message),)))
    return found


def _tables(validity: Validity) -> list[Table]:
    """The judgement's tables, the checks last."""
    return [*map(stored_table, validity.tables), check_table(validity)]


def check_table(validity: Validity) -> Table:
    """Each check: observed, its bound, required, the tolerance that would have passed, and where that comes from."""
    checks = validity.checks
    required = (f"{'≥' if each.relation is Relation.AT_LEAST else '≤'} {number(each.required)}" for each in checks)
    would_pass = ("no value" if each.would_pass_at is None else number(each.would_pass_at) for each in checks)
    outcomes = [_outcome(each) for each in checks]
    columns = (
        Column("check", tuple(each.title for each in checks)),
        Column("seen", tuple(number(each.seen) for each in checks), is_number=True),
        Column("95 % bound", tuple(number(each.bound) for each in checks), is_number=True),
        Column("required", tuple(required), is_number=True),
        Column("would pass at", tuple(would_pass), is_number=True),
        Column("", tuple(word for word, _ in outcomes), tones=tuple(tone for _, tone in outcomes)),
        Column("--tolerance", tuple(each.name if each.would_pass_at is not None else MISSING for each in checks)),
        Column("source of the requirement", tuple(each.source for each in checks)),
    )
    parts = [f"{validity.workload}: {validity.verdict.value}, {validity.scope}"]
    parts += [text for text in (validity.reason, validity.resolution) if text]
    parts += validity.notes
    return Table("Checks", columns, Text("\n".join(parts)))


def _outcome(check: records.Check) -> tuple[str, Tone]:
    if check.passed:
        return "pass", Tone.BETTER
    return ("undecided", Tone.OPEN) if check.undecided else ("FAIL", Tone.BAD)


def stored_table(table: records.Table) -> Table:
    """Return a table of a stored judgement. A column is one of numbers if most of its cells begin with a digit."""
    columns = []
    for index, title in enumerate(table.columns):
        cells = tuple(row[index] for row in table.rows)
        known = [cell.lstrip("≥≤<>+-−±≈ ")[:1] for cell in cells if cell not in ("", MISSING)]
        numbers = sum(first.isdigit() for first in known)
        # Several lines are a list, however it begins.
        is_number = index > 0 and 2 * numbers > len(known) and not any("\n" in cell for cell in cells)
        columns.append(Column(title, cells, is_number))
    return Table(table.title, tuple(columns), Text(table.note) if table.note else None)


def _written(files: Sequence[str]) -> list[str]:
    """What was written, in at most two lines: the number of pictures with their directory, other files by name."""
    folders = [str(PurePath(path).parent) for path in files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = [path for path, folder in zip(files, folders) if not folder.endswith(PICTURES)]
    found = [f"written: {len(pictures)} pictures in {', '.join(sorted(set(pictures)))}"] if pictures else []
    return found + ([f"written: {', '.join(others)}"] if others else [])


def number(value: Optional[float]) -> str:
    """Four significant digits; a dash for ``None``."""
    return MISSING if value is None else f"{value:.4g}"

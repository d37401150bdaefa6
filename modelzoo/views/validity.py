"""A judgement as a document: the verdict, the checks, what changed, what was written; on demand, all tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from modelzoo.document import Block, Line, Lines, Notice, Notices, Tone, first_line, lines
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import ValidityEntry, ValidityReport
from modelzoo.records.validity import Validity
from modelzoo.views.judgement import check_table, metric_text, reason_text, resolution_text, scope_text
from modelzoo.views.products import wrong_text
from modelzoo.views.results_table import VALIDITY_TONE
from modelzoo.views.validity_tables import tables
from modelzoo.warning import Severity, rank

PICTURES = "_pictures"
"""End of the name of the directory that holds the pictures of a judgement."""


def document(entry: ValidityEntry, *, details: bool = False) -> list[Block]:
    """Return the verdict on a judgement and what it follows from; or why there is none.

    Args:
        entry: the judgement.
        details: all tables, and the sources of the limits, instead of what changed.
    """
    if entry.report is None:
        error = entry.error or "it could not be judged"
        return [Notices((Notice(Severity.INVALIDATES, "failed", entry.workload, error),))]
    judged = entry.report.validity
    found: list[Block] = [*wrong_results(entry.report), verdict(judged)]
    tested = entry.report.tested.observed
    if entry.requested.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        why = tested.canary.summary if tested.canary is not None else tested.canary_problem or ""
        message = f"{entry.requested.precision} is {tested.canary_verdict} in this process: {why}"
        found.append(Notices((Notice(Severity.DISTORTS, "warning", "", message),)))
    sides = filter(None, (entry.report.reference, entry.report.tested))
    warnings = {each.code: each for side in sides for each in side.observed.warnings}
    found += [
        Notices((Notice(rank(code)[0], "warning", "", each.message, each.hint),)) for code, each in warnings.items()
    ]
    found.append(check_table(judged, is_brief=not details))
    found += tables(judged, is_brief=not details)
    written = _written(entry.files)
    return [*found, lines(*written)] if written else found


def wrong_results(report: ValidityReport) -> list[Lines]:
    """Name the products of either model that are wrong, if the audits found any."""
    sides = (
        (judged_name, side.observed.evidence)
        for judged_name, side in ((report.validity.tested_name, report.tested), ("the reference", report.reference))
        if side is not None
    )
    return [
        first_line(f"WRONG RESULTS in {name}: {wrong_text(evidence)}", Tone.BAD)
        for name, evidence in sides
        if evidence is not None and evidence.wrong
    ]


def _written(files: Sequence[str]) -> list[str]:
    """What was written, in at most two lines: the number of pictures with their directory, other files by name."""
    folders = [str(PurePath(path).parent) for path in files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = [path for path, folder in zip(files, folders) if not folder.endswith(PICTURES)]
    found = [f"written: {len(pictures)} images in {', '.join(sorted(set(pictures)))}"] if pictures else []
    return found + ([f"written: {', '.join(others)}"] if others else [])


def verdict(judged: Validity) -> Lines:
    """Return the verdict with the metric that decides; why it is not VALID, and what the data do not rule out."""
    found = ": ".join(filter(None, (str(judged.verdict), metric_text(judged))))
    said = f"{judged.workload} {judged.tested_name}: {found}; {scope_text(judged)}"
    more = filter(None, (reason_text(judged), resolution_text(judged)))
    first = Line(said, tone=VALIDITY_TONE.get(judged.verdict, Tone.PLAIN))
    return Lines((first, *(Line(each) for each in more)), stands_out=True)

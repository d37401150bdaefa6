"""A judgement as a document: the verdict, the checks, what changed, what was written; on demand, all tables."""

from __future__ import annotations

from pathlib import PurePath

from modelzoo.document import Block, Line, Lines, Notice, Notices, Tone, first_line, lines
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import ValidityEntry, ValidityReport
from modelzoo.records.validity import Validity
from modelzoo.views.judgement import check_table, reason_text, resolution_text, scope_text, verdict_text
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
    judged, tested, notices = entry.report.validity, entry.report.tested.observed, list[Notice]()
    if entry.requested.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        why = tested.canary.summary if tested.canary is not None else tested.canary_problem or ""
        message = f"{entry.requested.precision} is {tested.canary_verdict} in this process: {why}"
        notices.append(Notice(Severity.DISTORTS, "warning", "", message))
    sides = filter(None, (entry.report.reference, entry.report.tested))
    warnings = {each.code: each for side in sides for each in side.observed.warnings}
    notices += [Notice(rank(code)[0], "warning", "", each.message, each.hint) for code, each in warnings.items()]
    # What was written, in at most two lines: the number of pictures with their directory, other files by name.
    folders = [str(PurePath(path).parent) for path in entry.files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = ", ".join(path for path, folder in zip(entry.files, folders) if not folder.endswith(PICTURES))
    written = (
        f"written: {len(pictures)} images in {', '.join(sorted(set(pictures)))}" if pictures else "",
        f"written: {others}" if others else "",
    )
    return [
        *wrong_results(entry.report),
        verdict(judged),
        Notices(notices),
        check_table(judged, is_brief=not details),
        *tables(judged, is_brief=not details),
        lines(*written),
    ]


def wrong_results(report: ValidityReport) -> list[Lines]:
    """Name the products of either model that are wrong, if the audits found any."""
    return [
        first_line(f"WRONG RESULTS in {name}: {wrong_text(found)}", Tone.BAD)
        for name, side in ((report.validity.tested_name, report.tested), ("the reference", report.reference))
        if side is not None and (found := side.observed.evidence) is not None and found.wrong
    ]


def verdict(judged: Validity) -> Lines:
    """Return the verdict with the metric that decides; why it is not VALID, and what the data do not rule out."""
    said = f"{judged.workload} {judged.tested_name}: {verdict_text(judged)}; {scope_text(judged)}"
    first = Line(said, tone=VALIDITY_TONE.get(judged.verdict, Tone.PLAIN))
    more = lines(reason_text(judged), resolution_text(judged))
    return Lines((first, *more.items), stands_out=True)

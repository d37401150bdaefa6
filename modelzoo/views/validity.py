"""A judgement as a document: the verdict, the checks, what changed, what was written; on demand, all tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from modelzoo.document import Block, Line, Lines, Notice, Notices, Text, Tone, lines
from modelzoo.formatting import significant
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.run import ValidityEntry
from modelzoo.records.validity import Validity
from modelzoo.views.judgement import METRICS, check_table, reason_text, resolution_text, scope_text
from modelzoo.views.results_table import VALIDITY_TONE
from modelzoo.views.validity_tables import changed_tables, tables
from modelzoo.warning import Severity

PICTURES = "_pictures"
"""End of the name of the directory that holds the pictures of a judgement."""
OF_BOTH = ("top1_agreement", "detection_agreement", "tensor_error")
"""Metrics of the two models together: fp32 has no value of its own."""


def document(entry: ValidityEntry, *, details: bool = False) -> list[Block]:
    """Return the verdict on a judgement and what it follows from; or why there is none.

    Args:
        entry: the judgement.
        details: all tables, and the sources of the limits, instead of what changed.
    """
    if entry.report is None:
        error = Text(entry.error or "it could not be judged")
        return [Notices((Notice(Severity.INVALIDATES, "failed", entry.workload, error),))]
    judged = entry.report.validity
    found: list[Block] = [_verdict(judged)]
    tested = entry.report.tested.observed
    if entry.requested.precision != "fp32" and tested.canary_verdict is not CanaryVerdict.ACTIVE:
        why = tested.canary.summary if tested.canary is not None else tested.canary_problem or ""
        message = Text(f"{entry.requested.precision} is {tested.canary_verdict} in this process: {why}")
        found.append(Notices((Notice(Severity.DISTORTS, "warning", "", message),)))
    found.append(check_table(judged, is_brief=not details))
    found += tables(judged) if details else changed_tables(judged)
    written = _written(entry.files)
    return [*found, lines(*written)] if written else found


def _written(files: Sequence[str]) -> list[str]:
    """What was written, in at most two lines: the number of pictures with their directory, other files by name."""
    folders = [str(PurePath(path).parent) for path in files]
    pictures = [folder for folder in folders if folder.endswith(PICTURES)]
    others = [path for path, folder in zip(files, folders) if not folder.endswith(PICTURES)]
    found = [f"written: {len(pictures)} images in {', '.join(sorted(set(pictures)))}"] if pictures else []
    return found + ([f"written: {', '.join(others)}"] if others else [])


def _verdict(judged: Validity) -> Lines:
    """The verdict with the metric that decides, why it is not VALID, and which losses the data do not rule out."""
    known = [(judged.reference, judged.reference_name), (judged.tested, judged.tested_name)]
    values = ", ".join(f"{significant(value)} in {name}" for value, name in known if value is not None)
    if judged.metric in OF_BOTH and judged.tested is not None:
        values = significant(judged.tested)
    metric = f": {METRICS.get(judged.metric, judged.metric)} {values}" if values else ""
    said = f"{judged.workload} {judged.tested_name}: {judged.verdict}{metric}; {scope_text(judged)}"
    more = filter(None, (reason_text(judged), resolution_text(judged)))
    first = Line(Text(said), tone=VALIDITY_TONE.get(judged.verdict, Tone.PLAIN))
    return Lines((first, *(Line(Text(each)) for each in more)), stands_out=True)

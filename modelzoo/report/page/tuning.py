"""The section of a search: the answer, the steps to the winner, the candidates, and what was left out."""

from __future__ import annotations

from modelzoo.formatting import capitalized
from modelzoo.records.run import Result
from modelzoo.report import tuning
from modelzoo.report.page import figures
from modelzoo.report.page.content import Block, Details, Paragraphs, Section, Table
from modelzoo.report.plots import ladder
from modelzoo.results import tuning as results


def section(result: Result, mark: str, widths: figures.Widths) -> Section:
    """Return the section of the search that ``result`` holds.

    Args:
        result: of ``modelzoo tune``.
        mark: id of the section.
        widths: in which the plot is drawn.
    """
    said = [f"{capitalized(tuning.headline(result))}.", tuning.ties(result) and f"{capitalized(tuning.ties(result))}."]
    found: list[Block] = [Paragraphs(tuple(filter(None, said)))]
    figure = figures.steps(ladder.of_result(result), f"{mark}-ladder", widths)
    if figure is not None:
        found.append(figure)
    candidates = results.candidates(result)
    if candidates:
        note = "In the search, each candidate was compared with the default in the same rounds; the best of many looks "
        note += "faster than it is. Only the confirmation says how fast the winner is."
        table = Table("Candidates", tuple(tuning.candidate_columns(candidates)), note)
        reasons = Paragraphs(tuple(f"{capitalized(line)}." for line in tuning.excluded_lines(candidates)))
        found.append(Details(capitalized(tuning.caption(result)), (table, reasons) if reasons.texts else (table,)))
    left_out = tuning.left_out_lines(result)
    if left_out:
        found.append(Details("Left out", (Paragraphs(tuple(left_out)),)))
    return Section("Search", tuple(found), mark)

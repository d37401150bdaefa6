"""Which kernels and operators took the time, setting by setting. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from modelzoo.document import Block, Details, lines
from modelzoo.records.evidence import Evidence
from modelzoo.records.profile import Profile
from modelzoo.results.summary import SummaryRow
from modelzoo.views import kernel_tables
from modelzoo.views.differences import short_names


def evidence_of(each: SummaryRow) -> Evidence | None:
    """Return the evidence of the first process of a setting that was audited in full."""
    return next((report.observed.evidence for report in each.reports if report.observed.evidence is not None), None)


def profile_of(each: SummaryRow) -> Profile | None:
    """Return the profile of the first process of a setting that has one."""
    return next((report.observed.profile for report in each.reports if report.observed.profile is not None), None)


def kernel_details(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return the tables of the kernels of each setting of one workload that was audited."""
    found: list[Block] = []
    for name, each in zip(short_names(shown), shown):
        evidence = evidence_of(each)
        if evidence is not None:
            tables = tuple(kernel_tables.evidence_tables(evidence))
            problems = kernel_tables.problems(evidence)
            notes = (lines(*problems),) if problems else ()
            found.append(Details(f"Kernels of {name}, {evidence.iterations} audited passes", (*tables, *notes)))
    return found


def operator_details(shown: Sequence[SummaryRow]) -> list[Block]:
    """Return the profile of each setting of one workload that has one."""
    found: list[Block] = []
    for name, each in zip(short_names(shown), shown):
        profile = profile_of(each)
        if profile is not None:
            tables = tuple(kernel_tables.profile_tables(profile))
            found.append(Details(f"Operators of {name}, {profile.iterations} profiled passes", tables))
    return found

"""An engine that is not torch goes through run, proof and judgement; measuring and judging do not know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_workloads import SHORT, numpy_classifier, numpy_setting, runs_of

from modelzoo.errors import UsageError
from modelzoo.measure import jobs
from modelzoo.measure.jobs import Request
from modelzoo.records.run import Result, RunReport, SettingRequest, now
from modelzoo.records.validity import Reason, ReasonKind, ValidityRequest, ValidityVerdict, WorstLayer
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.workload import Workload

REASON = "the fake engine has no kernel log, so its precision cannot be verified"


@pytest.fixture
def workload(tmp_path: Path, numpy_engine: None) -> Workload:
    """A linear classifier for numpy."""
    return numpy_classifier(tmp_path)


def settings(workload: Workload) -> tuple[Setting, Setting]:
    """fp32 and bf16, with the weights of the workload."""
    fp32 = numpy_setting(workload)
    return fp32, fp32.replace(precision="bf16")


def test_it_is_timed_and_its_precision_cannot_be_proven(workload: Workload) -> None:
    """Times, versions and the reason why nothing is proven; the summary and ``--strict`` say so."""
    requested = settings(workload)
    runs = tuple(runs_of(Request(workload, requested, SHORT), 2))
    assert [run.error for run in runs] == [None] * 4
    reports = [run.report for run in runs if run.report is not None]
    for report in reports:
        _check(report)
    result = Result(("run",), now(), tuple(SettingRequest(workload.name, each) for each in requested), runs)
    rows = summary.rows(result)
    assert [row.proof.verdict for row in rows] == [None, None]
    assert {row.proof.ground for row in rows} == {REASON}
    assert all(map(summary.is_unproven, rows))
    assert len(summary.target_lines(rows)) == 2


def _check(report: RunReport) -> None:
    assert report.timing is not None
    assert len(report.timing.steady) == 3
    assert (
        report.provenance.engine,
        report.provenance.libraries,
        report.observed.canary,
        report.observed.evidence,
    ) == ("fake", None, None, None)
    assert report.observed.evidence_problem == REASON
    assert set(report.provenance.versions) == {"python", "numpy"}


def test_its_predictions_are_judged(workload: Workload) -> None:
    """bf16, imitated by cutting off mantissa bits, agrees with fp32, but nothing says what its rounding may do.

    Both sides say that they prove nothing.
    """
    _, bf16 = settings(workload)
    request = Request(workload, (bf16,), SHORT)
    report = jobs.validate(request, ValidityRequest(), lambda event: None, lambda exhibit: None)
    assert report.validity.verdict is ValidityVerdict.INCONCLUSIVE
    assert report.validity.reason == Reason(ReasonKind.UNKNOWN_ROUNDING)
    assert [each.about for each in report.validity.checks if each.undecided][-1] == WorstLayer("(output)")
    assert report.validity.metric == "top1_agreement"
    assert report.reference is not None
    assert (report.tested.observed.evidence_problem, report.reference.observed.evidence_problem) == (REASON, REASON)


def test_what_it_cannot_do_is_one_line(workload: Workload) -> None:
    """A mode that it lacks is refused by the engine, before anything is timed."""
    fp32, _ = settings(workload)
    request = Request(workload, (fp32.replace(mode="compile"),), SHORT)
    (run,) = runs_of(request)
    assert (run.error, run.error_kind) == ("--mode compile: the fake engine does not compile", UsageError.__name__)

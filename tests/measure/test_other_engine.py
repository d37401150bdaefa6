"""An engine that is not torch goes through run, proof and judgement; measuring and judging do not know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_workloads import SHORT, numpy_classifier, numpy_setting, runs_of

from modelzoo.errors import UsageError
from modelzoo.measure.jobs import Request
from modelzoo.measure.preparation import prepare
from modelzoo.records.protocol import PrepareJob
from modelzoo.records.run import Result, SettingRequest, now
from modelzoo.results import summary
from modelzoo.workload import Workload

REASON = "the fake engine has no kernel log, so its precision cannot be verified"


@pytest.fixture
def workload(tmp_path: Path, numpy_engine: None) -> Workload:
    """A linear classifier for numpy."""
    return numpy_classifier(tmp_path)


def test_it_is_timed_and_its_precision_cannot_be_proven(workload: Workload) -> None:
    """Times, versions and the reason why nothing is proven; the summary and ``--strict`` say so."""
    fp32 = numpy_setting(workload)
    requested = fp32, fp32.replace(precision="bf16")
    runs = tuple(runs_of(Request(workload, requested, SHORT)))
    assert [run.error for run in runs] == [None] * 2
    for run in runs:
        report = run.report
        assert report is not None and len(run.steady) == 3
        own, seen = report.provenance, report.observed
        assert (own.engine, own.libraries, seen.canary, seen.evidence) == ("fake", None, None, None)
        assert (seen.evidence_problem, set(own.versions)) == (REASON, {"python", "numpy"})
    result = Result(("run",), now(), tuple(SettingRequest(workload.name, each) for each in requested), runs)
    rows = summary.rows(result)
    assert [row.proof.verdict for row in rows] == [None, None]
    assert {row.proof.ground for row in rows} == {REASON}
    assert all(map(summary.is_unproven, rows))
    assert len(summary.target_lines(rows)) == 2


def test_what_it_cannot_do_is_one_line(workload: Workload) -> None:
    """A mode that it lacks is refused by the engine, before anything is timed."""
    job = PrepareJob(str(workload.directory), (numpy_setting(workload).replace(mode="compile"),), 0)
    (found,) = prepare(job, lambda message: None)
    assert (found.error, found.error_kind) == ("--mode compile: the fake engine does not compile", UsageError.__name__)

"""Results of format 1 are read: real ones, made before format 2 existed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from places import DATA
from stored_results import FORMAT_1, name, unpacked

from modelzoo.errors import InputError
from modelzoo.records.run import FORMAT, Result
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import store, summary

TARGETS = """\
[TARGET] resnet50 Time 0.03443
[TARGET] resnet50-bf16 Time 0.03499
[TARGET] ssd Time 0.5612
[TARGET] ssd-bf16 Time 0.3685
[TARGET] maskrcnn Time 2.198
[TARGET] maskrcnn-bf16 Time 1.370
[TARGET] bert Time 1.957
[TARGET] bert-bf16 Time 1.737
"""
"""The geometric means of the processes' medians in ``full.json``. The suite that wrote it printed the medians of these
medians (0.03444 for resnet50), which for its two processes per setting are arithmetic means."""


def load(stored: str, directory: Path) -> Result:
    """A stored result by its name."""
    (path,) = (DATA / "results" / "format1").glob(f"{stored}.*")
    return store.read(unpacked(path, directory))


def raw(stored: str) -> Any:
    """A stored result by its name, as JSON data."""
    return json.loads((DATA / "results" / "format1" / f"{stored}.json").read_text())


@pytest.mark.parametrize("stored", FORMAT_1, ids=name)
def test_real_results_are_read_and_summarised(stored: Path, tmp_path: Path) -> None:
    """Every one, failures included; each run and judgement belongs to what was asked for."""
    result = store.read(unpacked(stored, tmp_path))
    assert result.format == FORMAT
    assert result.version == "0.1.0"
    assert [result.asked[run.group].setting for run in result.runs] == [run.asked for run in result.runs]
    assert [result.asked[each.group].setting for each in result.validity] == [each.asked for each in result.validity]
    assert bool(summary.rows(result)) is bool(result.runs)


def test_the_target_lines_have_the_names_that_were_printed_and_times_of_this_version(tmp_path: Path) -> None:
    """Four workloads in fp32 and bf16; the times follow from the stored samples."""
    result = load("full", tmp_path)
    assert summary.target_lines(summary.rows(result)) == TARGETS.splitlines()


def test_renamed_fields_keep_their_values(tmp_path: Path) -> None:
    """Times, bf16 method, evidence, load, warnings and roofline are found under their new names."""
    old = raw("mlp")["runs"][0]["report"]
    report = load("mlp", tmp_path).runs[0].report
    assert report is not None
    assert report.timing is not None
    assert (report.timing.cold_start, list(report.timing.steady)) == (old["phases"]["cold"], old["phases"]["steady"])
    assert [series.name for series in report.timing.series] == ["latency"]
    assert report.canary_verdict == old["canary_word"]
    assert report.usage is not None
    assert report.usage.own_cores == old["load"]["own_cores"]
    assert [each.code for each in report.warnings] == [each["code"] for each in old["advice"]]
    assert report.evidence is not None
    assert report.evidence.by_operator[0].name == old["evidence"]["rows_by_operator"][0]["name"]
    assert len(report.evidence.operators) == len(old["evidence"]["uses"])
    assert report.bound is not None
    assert report.bound.bound_by == old["bound"]["word"]
    assert {run.report.setting.bf16_method for run in load("mlp", tmp_path).runs if run.report} == {None, "autocast"}


def test_what_was_not_recorded_is_not_guessed(tmp_path: Path) -> None:
    """Neither the end of a run nor its CPUs, digests, ceilings or turns."""
    result = load("mlp", tmp_path)
    run = result.runs[0]
    assert run.report is not None
    assert (result.commit, run.ended) == (None, None)
    assert (run.report.cpus, run.report.digest, run.report.inputs_digest) == (None, None, None)
    assert (run.report.ceilings, run.report.turns, run.report.versions) == (None, None, {})
    assert (run.report.machine.instance_type, run.report.machine.threads.cpus_allowed) == (None, None)


def test_judgements_keep_verdict_files_and_error(tmp_path: Path) -> None:
    """Judged, judged with trained weights, and not judged at all; the calls did not store what was asked for."""
    bert, failed = load("bert", tmp_path), load("eff", tmp_path)
    assert [asked.workload for asked in bert.asked] == ["bert"]
    report = bert.validity[0].report
    assert report is not None
    assert (report.validity.verdict, report.validity.metric) == (ValidityVerdict.VALID, "f1")
    assert bert.validity[0].files
    assert (report.tested.canary_verdict, report.reference, report.machine) == ("active", None, None)
    assert (failed.validity[0].report, failed.validity[0].exit_code) == (None, 2)
    assert "efficientnet_lite0" in (failed.validity[0].error or "")


def test_a_call_that_failed_for_one_reason_says_it(tmp_path: Path) -> None:
    """A device that is not there: every run has the same error."""
    failed = load("failing", tmp_path).only_error()
    assert failed is not None
    assert failed.error_kind == "EnvironmentProblem"
    assert failed.error is not None
    assert failed.error.startswith("--device cuda: no cuda device is available here")


def test_device_times_become_series(tmp_path: Path) -> None:
    """Format 1 had three lists; empty ones are series that were not recorded."""
    data = raw("strict")
    data["runs"][0]["report"]["phases"].update(issue=[0.1], device=[0.2])
    (tmp_path / "r.json").write_text(json.dumps(data))
    report = store.read(tmp_path / "r.json").runs[0].report
    assert report is not None
    assert report.timing is not None
    assert [(each.name, each.role) for each in report.timing.series][1:] == [("issue", "issue"), ("device", "device")]


@pytest.mark.parametrize("field", ["workload", "setting", "phases", "canary_word", "advice", "machine", "weights"])
def test_a_report_that_lacks_a_field_is_damaged(field: str, tmp_path: Path) -> None:
    """What format 1 always had is required; the message names it."""
    data = raw("strict")
    del data["runs"][0]["report"][field]
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=f"is damaged .*{field}"):
        store.read(tmp_path / "r.json")


@pytest.mark.parametrize("field", ["load", "evidence", "bound", "flops", "profile"])
def test_an_older_report_without_a_field_is_read(field: str, tmp_path: Path) -> None:
    """Early results of format 1 lacked these; they are not recorded."""
    data = raw("strict")
    del data["runs"][0]["report"][field]
    (tmp_path / "r.json").write_text(json.dumps(data))
    report = store.read(tmp_path / "r.json").runs[0].report
    assert report is not None
    assert getattr(report, {"load": "usage"}.get(field, field)) is None

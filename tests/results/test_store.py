"""Results are whole JSON at any moment, fit their schema, and are refused when they are not ours."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_runs import make
from hypothesis import given
from hypothesis import strategies as st

from modelzoo.results import store as result
from modelzoo.errors import InputError, UsageError
from modelzoo.results.store import Result
from modelzoo.setting import Setting


def some_result() -> Result:
    """One good run and one that failed."""
    stored = Result(("modelzoo", "run"), result.now())
    return stored.plus(make([1.0, 2.0])).plus(make(None, round=1, error="the worker died"))


def test_the_schema_is_a_schema() -> None:
    """It says of itself that it is draft 2020-12, and is."""
    jsonschema.Draft202012Validator.check_schema(json.loads(result.SCHEMA_FILE.read_text()))


def test_the_schema_and_the_code_name_the_same_version() -> None:
    """A changed format must change both."""
    schema = json.loads(result.SCHEMA_FILE.read_text())
    assert schema["$id"] == schema["properties"]["schema"]["const"] == result.SCHEMA


@pytest.mark.parametrize("runs", [0, 1])
def test_results_without_reports_fit_the_schema(runs: int, tmp_path: Path) -> None:
    """A call whose first run has not ended, or failed, leaves a valid file."""
    stored = Result(("modelzoo", "run"), result.now())
    for _ in range(runs):
        stored = stored.plus(make(None, error="the worker died"))
    result.write(stored, tmp_path / "r.json")
    jsonschema.validate(json.loads((tmp_path / "r.json").read_text()), json.loads(result.SCHEMA_FILE.read_text()))


def test_the_schema_refuses_what_is_none() -> None:
    """The check is able to fail: another version, unknown keys, a negative time."""
    schema = json.loads(result.SCHEMA_FILE.read_text())
    good = {"schema": result.SCHEMA, "version": "1", "command": [], "created": "", "runs": [], "validity": []}
    jsonschema.validate(good, schema)
    for change in ({"schema": "modelzoo-result/0"}, {"extra": 1}, {"runs": [{"workload": "x"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, **change}, schema)


def test_the_baseline_is_what_was_asked_for_first_not_what_ended_first(tmp_path: Path) -> None:
    """Workers of a round end in any order: groups follow the call, runs within them the rounds."""
    fp32, bf16 = Setting(), Setting(precision="bf16")
    asked = tuple({"workload": "toy", "setting": each.to_json()} for each in (fp32, bf16))
    stored = Result(("modelzoo",), result.now(), asked=asked)
    assert stored.groups() == {}
    result.write(stored, tmp_path / "r.json")
    jsonschema.validate(json.loads((tmp_path / "r.json").read_text()), json.loads(result.SCHEMA_FILE.read_text()))
    for setting, number in ((bf16, 0), (fp32, 0), (bf16, 1)):
        stored = stored.plus(make([1.0], setting=setting, round=number))
    result.write(stored, tmp_path / "r.json")
    groups = result.read(tmp_path / "r.json").groups()
    assert [json.loads(text)["precision"] for _, text in groups] == ["fp32", "bf16"]
    assert [[run.round for run in runs] for runs in groups.values()] == [[0], [0, 1]]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Runs, command and time survive; directories are made."""
    path = tmp_path / "new folder" / "r.json"
    stored = some_result()
    result.write(stored, path)
    assert result.read(path) == stored
    assert [run.steady for run in result.read(path).runs] == [[1.0, 2.0], []]


def test_infinities_become_null_and_never_bad_json(tmp_path: Path) -> None:
    """Strict parsers take the file: no NaN or Infinity words in it."""
    path = tmp_path / "r.json"
    run = make([1.0], counts=[{"value": float("nan"), "low": float("-inf"), "high": float("inf")}])
    result.write(Result((), "", (run,)), path)

    def refuse(word: str) -> Any:
        raise AssertionError(word)

    data = json.loads(path.read_text(), parse_constant=refuse)
    assert data["runs"][0]["report"]["counts"] == [{"value": None, "low": None, "high": None}]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.builds(Path, st.just("/a/b")),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(json_values)
def test_plain_makes_anything_json(value: Any) -> None:
    """Whatever a report holds, it can be stored strictly, and storing changes nothing more."""
    plain = result.plain(value)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk or a kill in between: the reader still sees the old result, whole, and no debris."""
    path = tmp_path / "r.json"
    result.write(some_result(), path)
    before = path.read_bytes()

    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail) if step == "fsync" else monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(
        UsageError, match="cannot write .*r.json: No space left on device; name another place by --json"
    ):
        result.write(some_result().plus(make([3.0])), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while writing stays Ctrl-C, with the old file in place."""
    path = tmp_path / "r.json"
    result.write(some_result(), path)
    before = path.read_bytes()

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        result.write(Result((), ""), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("place", ["file/r.json", "folder"])
def test_an_unwritable_place_is_one_sentence(place: str, tmp_path: Path) -> None:
    """A file where a directory should be, or a directory where the file should be."""
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="cannot write .*; name another place by --json FILE"):
        result.write(some_result(), tmp_path / place)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_other_users_may_read_as_the_umask_says(tmp_path: Path) -> None:
    """The temporary file's private mode does not stay."""
    before = os.umask(0o022)
    try:
        result.write(some_result(), tmp_path / "r.json")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read .*: No such file"),
        ("{", "is not JSON"),
        (
            '{"schema": "modelzoo-result/99"}',
            r"is not a result of modelzoo-result/1 \(its schema: modelzoo-result/99\)",
        ),
        ("[]", r"is not a result of modelzoo-result/1 \(its schema: None\)"),
        ('{"schema": "modelzoo-result/1"}', "is no whole result"),
        ('{"schema": "modelzoo-result/1", "runs": [{"workload": "x"}]}', "is no whole result"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str | None, message: str, tmp_path: Path) -> None:
    """Missing, no JSON, another version, and a file that lacks parts."""
    if text is not None:
        (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=message):
        result.read(tmp_path / "r.json")


def test_runs_are_grouped_by_workload_and_setting() -> None:
    """In the order of their first appearance, whatever the order of the runs."""
    bf16 = Setting("bf16")
    runs = (make([1.0]), make([2.0], setting=bf16), make([3.0], setting=bf16, round=1), make([4.0], round=1))
    groups = Result((), "", (*runs, make([5.0], workload="other"))).groups()
    assert [[run.steady[0] for run in group] for group in groups.values()] == [[1.0, 4.0], [2.0, 3.0], [5.0]]


def test_merged_runs_keep_their_order() -> None:
    """Results of several calls are one list of runs."""
    first, second = Result((), "", (make([1.0]),)), Result((), "", (make([2.0]), make([3.0])))
    assert [run.steady for run in result.merged([first, second])] == [[1.0], [2.0], [3.0]]

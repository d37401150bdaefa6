"""Where results are stored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelzoo.cli import output
from modelzoo.errors import UsageError
from modelzoo.records.run import Session
from modelzoo.workload import discovery

CREATED = "2026-01-02T03:04:05+0000"


def test_a_result_has_the_name_that_was_given(tmp_path: Path) -> None:
    """``-o FILE`` is taken as it is."""
    assert output.result_path(str(tmp_path / "mine.json"), CREATED) == tmp_path / "mine.json"


def test_a_result_without_a_name_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls in one second have two files."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    first = output.result_path(None, CREATED)
    first.write_text("{}")
    second = output.result_path(None, CREATED)
    assert first.parent == second.parent == tmp_path
    assert (first.name, second.name) == ("2026-01-02T030405Z.json", "2026-01-02T030405Z-1.json")


def test_results_are_stored_in_the_checkout_or_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package has no checkout, and site-packages is no place for results."""
    monkeypatch.delenv("MODELZOO_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert output.result_path(None, CREATED).parent == discovery.CHECKOUT / "results"
    monkeypatch.setattr(discovery, "CHECKOUT", tmp_path / "site-packages")
    assert output.result_path(None, CREATED).parent == tmp_path / "results"


def test_the_command_for_details_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program has a path unless it is found without one, and a path with a space is quoted."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a b.json"
    own = Path(sys.executable).with_name("modelzoo")
    assert output.details_command(path) == f"{own} report '{path}' --details"
    (tmp_path / "modelzoo").touch(0o755)
    assert output.details_command(path) == f"modelzoo report '{path}' --details"


def test_the_sessions_of_a_call_have_a_file_each(tmp_path: Path) -> None:
    """Their number is added to the name that was given; a single session keeps it."""
    named = str(tmp_path / "mine.json")
    assert output.result_path(named, CREATED, Session(CREATED, 2, 3)) == tmp_path / "mine-2.json"
    assert output.result_path(named, CREATED, Session(CREATED, 1, 1)) == tmp_path / "mine.json"


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    """If the file cannot replace what is there, no temporary file stays behind."""
    (tmp_path / "doctor.json").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        output.write_output(tmp_path / "doctor.json", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["doctor.json"]

"""Where results are stored."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from modelzoo.cli import fleet, output
from modelzoo.cli.options import Fleet
from modelzoo.errors import UsageError
from modelzoo.records.run import Result
from modelzoo.results.store import ResultFile
from modelzoo.workload import discovery

CREATED = "2026-01-02T03:04:05+0000"


def test_a_result_without_a_name_never_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls in one second have two files, even before either has written anything."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    first = output.result_path(None, CREATED)
    second = output.result_path(None, CREATED)
    assert first.parent == second.parent == tmp_path
    assert (first.name, second.name) == ("2026-01-02T030405Z.json", "2026-01-02T030405Z-1.json")


def test_fleets_of_one_second_have_a_directory_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host's file has the same name in both."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    monkeypatch.setattr("modelzoo.records.run.now", lambda: CREATED)
    found = [fleet.directory_of(Fleet(scheduler="")) for _ in range(2)]
    assert found == [tmp_path / "fleet-2026-01-02T030405Z", tmp_path / "fleet-2026-01-02T030405Z-1"]
    assert all(path.is_dir() for path in found)


def test_results_are_stored_in_the_checkout_or_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installed package has no checkout, and site-packages is no place for results."""
    monkeypatch.delenv("MODELZOO_RESULTS")
    monkeypatch.chdir(tmp_path)
    assert output.results_directory() == discovery.CHECKOUT / "results"
    monkeypatch.setattr(discovery, "CHECKOUT", tmp_path / "site-packages")
    assert output.results_directory() == tmp_path / "results"


def test_the_command_for_details_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program has a path unless it is found without one, and a path with a space is quoted."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a b.json"
    own = Path(sys.executable).with_name("modelzoo")
    assert output.details_command(path) == f"{own} report '{path}' --details"
    (tmp_path / "modelzoo").touch(0o755)
    assert output.details_command(path) == f"modelzoo report '{path}' --details"


def test_lines_for_people_and_for_scripts_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """A name in them begins no other line and moves no cursor; scripts find no line of theirs on stderr."""
    output.tell("modelzoo: error: x\n[TARGET] toy Time 1\x1b[2J")
    output.print_lines(["[TARGET] x\n[TARGET] toy Time 1\x9b"])
    captured = capsys.readouterr()
    assert captured.err == r"modelzoo: error: x\n\x5bTARGET] toy Time 1\x1b[2J" + "\n"
    assert captured.out == r"[TARGET] x\n[TARGET] toy Time 1\x9b" + "\n"


def test_a_result_on_stdout_is_json_that_a_terminal_can_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON has no escape for control characters above 127 of its own accord, nor for those that change direction."""
    stored = ResultFile(tmp_path / "r.json", Result((), CREATED, name="\x9b\u202e é"))
    output.print_result(stored, ["[TARGET] toy Time 1"], output.STDOUT)
    captured = capsys.readouterr()
    assert '"\\u009b\\u202e é"' in captured.out
    assert captured.err == "[TARGET] toy Time 1\n"
    assert json.loads(captured.out) == json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))


def test_what_cannot_be_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of ``check`` took minutes to measure; the error comes all the same."""
    with pytest.raises(UsageError, match="cannot write"):
        output.deliver("page\n", tmp_path / "none" / "page.md")
    assert capsys.readouterr().out == "page\n"

"""Where results are stored."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelzoo.cli import fleet, output
from modelzoo.cli.options import Fleet
from modelzoo.errors import UsageError
from modelzoo.workload import discovery

CREATED = "2026-01-02T03:04:05+0000"


def test_results_of_one_second_never_replace_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even before either call has written anything; the hosts of a fleet have a directory."""
    monkeypatch.setenv("MODELZOO_RESULTS", str(tmp_path))
    monkeypatch.setattr("modelzoo.records.run.now", lambda: CREATED)
    files = [output.result_path(None, CREATED) for _ in range(2)]
    assert files == [tmp_path / "2026-01-02T030405Z.json", tmp_path / "2026-01-02T030405Z-1.json"]
    fleets = [fleet.directory_of(Fleet(scheduler="")) for _ in range(2)]
    assert fleets == [tmp_path / "fleet-2026-01-02T030405Z", tmp_path / "fleet-2026-01-02T030405Z-1"]
    assert all(path.is_dir() for path in fleets)


def test_results_of_an_installed_suite_are_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a checkout are in it; site-packages is no place for results."""
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


def test_what_cannot_be_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page of ``check`` took minutes to measure; the error comes all the same."""
    with pytest.raises(UsageError, match="cannot write"):
        output.deliver("page\n", tmp_path / "none" / "page.md")
    assert capsys.readouterr().out == "page\n"

"""``modelzoo tune`` with simulated processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_machine import SERVER
from simulated_search import Machine, speeds
from toy_workloads import MLP

from modelzoo import cli
from modelzoo.machine import facts
from modelzoo.results import store, tuning
from modelzoo.setting import Setting
from modelzoo.tuning import search


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which a script is half as slow again as eager mode is slow."""
    found = Machine(speeds(script=2.0))
    monkeypatch.setattr(search, "Rounds", found.rounds)
    monkeypatch.setattr(facts, "read_machine", lambda: SERVER)
    return found


def tune(path: Path, *words: str) -> int:
    """``modelzoo tune examples/mlp`` in this process."""
    return cli.main(["tune", str(MLP), "--batch", "4", "--vary", "mode=eager,script", "--json", str(path), *words])


def test_the_winner_can_be_used_again(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a command line, a file for --setting and Python; stdout has the times of default and winner."""
    assert tune(tmp_path / "r.json") == 0
    captured = capsys.readouterr()
    assert "mlp: the fastest is fp32 script: 2" in captured.err
    assert f"command line: modelzoo run {MLP} --setting 'precision=fp32 engine=torch mode=script" in captured.err
    assert (tmp_path / "r.setting").is_file()
    assert (tmp_path / "r.py").is_file()
    assert [line.split()[:2] for line in captured.out.splitlines()] == [
        ["[TARGET]", "mlp"],
        ["[TARGET]", "mlp-fp32-script"],
    ]
    assert tuning.is_faster(store.read(tmp_path / "r.json"))


def test_nothing_is_faster(tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """An answer, with exit code 0; the default is what the files hold."""
    machine.seconds = speeds(script=0.5)
    assert tune(tmp_path / "r.json") == 0
    captured = capsys.readouterr()
    assert (
        "mlp: nothing is faster here than the default, fp32: the fastest of 1 candidates, fp32 script" in captured.err
    )
    assert "mode=eager" in (tmp_path / "r.setting").read_text()
    assert captured.out == ""


def test_an_interrupted_search_says_how_to_go_on(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """And goes on; a search that is complete does not."""
    machine.stops_after = 4
    path = tmp_path / "r.json"
    assert tune(path) == 130
    assert (
        f"4 finished runs are in {path}; continue with: modelzoo tune {MLP} --resume {path}" in capsys.readouterr().err
    )
    machine.stops_after = 10**6
    assert cli.main(["tune", str(MLP), "--batch", "4", "--resume", str(path)]) == 0
    assert "the fastest is " in capsys.readouterr().err
    assert cli.main(["tune", str(MLP), "--batch", "4", "--resume", str(path)]) == 2
    assert "it holds a search that is complete; leave --resume out" in capsys.readouterr().err


def test_a_search_of_something_else_is_not_resumed(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other options, or another machine."""
    machine.stops_after = 2
    path = tmp_path / "r.json"
    tune(path)
    capsys.readouterr()
    assert cli.main(["tune", str(MLP), "--batch", "5", "--resume", str(path)]) == 2
    assert "repeat the options of the first call" in capsys.readouterr().err
    assert len(machine.ran) == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--budget", "5s"), "--budget 5s is too short: a search of 2 settings starts at least 11 processes"),
        (("--vary", "mode=eager"), "mode is varied twice"),
        (("--goal", "fast"), "invalid choice: 'fast'"),
        (("--budget", "fast"), "'fast' is not a duration"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_anything_starts(
    words: tuple[str, ...], expected: str, machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2."""
    try:
        code = tune(tmp_path / "r.json", *words)
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert machine.ran == []


def test_report_shows_the_search(machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of times is that of the confirmation."""
    tune(tmp_path / "r.json")
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path / "r.json")]) == 0
    captured = capsys.readouterr()
    assert "the fastest is fp32 script" in captured.out
    assert "[TARGET] mlp-fp32-script Time 0.4997" in captured.out


def test_the_default_grid_is_declared_for_this_machine(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing here is left out with its reason."""
    machine.stops_after = 1
    assert cli.main(["tune", str(MLP), "--json", str(tmp_path / "r.json"), "--budget", "2h"]) == 130
    requested = [requested.setting.replace(options={}) for requested in store.read(tmp_path / "r.json").requested]
    assert requested[:2] == [Setting(), Setting(mode="compile")]
    assert "what the grid does not contain here:" in capsys.readouterr().err

"""``modelzoo tune`` with simulated processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from calls import Call, called
from example_machine import SERVER
from simulated_search import Machine, speeds
from toy_workloads import MLP

from modelzoo.machine import facts
from modelzoo.results import store, tuning
from modelzoo.tuning import search


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine on which a script is half as slow again as eager mode is slow."""
    found = Machine(speeds(script=2.0))
    monkeypatch.setattr(search, "Rounds", found.rounds)
    monkeypatch.setattr(facts, "read_machine", lambda: SERVER)
    return found


def tune(path: Path, *words: object) -> Call:
    return called("tune", MLP, "--batch", "4", "--vary", "mode=eager,script", "--json", path, *words)


def test_the_winner_can_be_used_again(machine: Machine, tmp_path: Path) -> None:
    """As a command line, a file for --setting and Python; the report has the times of the confirmation."""
    path = tmp_path / "r.json"
    code, out, err = tune(path)
    assert code == 0
    assert "mlp: the fastest is fp32 script: 2" in err
    assert f"command line: modelzoo run {MLP} --setting 'precision=fp32 engine=torch mode=script" in err
    assert (tmp_path / "r.setting").is_file() and (tmp_path / "r.py").is_file()
    assert [line.split()[:2] for line in out.splitlines()] == [["[TARGET]", "mlp"], ["[TARGET]", "mlp-fp32-script"]]
    assert tuning.is_faster(store.read(path))
    shown = called("report", path).out
    assert "the fastest is fp32 script" in shown
    assert "[TARGET] mlp-fp32-script Time 0.4997" in shown


def test_nothing_is_faster(tmp_path: Path, machine: Machine) -> None:
    """An answer, with exit code 0; the default is what the files hold."""
    machine.seconds = speeds(script=0.5)
    code, out, err = tune(tmp_path / "r.json")
    assert (code, out) == (0, "")
    assert "mlp: nothing is faster here than the default, fp32: the fastest of 1 candidates, fp32 script" in err
    assert "mode=eager" in (tmp_path / "r.setting").read_text()


def test_an_interrupted_search_says_how_to_go_on(tmp_path: Path, machine: Machine) -> None:
    """And goes on; not with other options, nor if it is complete."""
    machine.stops_after = 4
    path = tmp_path / "r.json"
    code, _, err = tune(path)
    assert code == 130
    assert f"4 finished runs are in {path}; continue with: modelzoo tune {MLP} --resume {path}" in err
    machine.stops_after = 10**6
    for batch, code, words in (
        (5, 2, "repeat the options of the first call"),
        (4, 0, "the fastest is "),
        (4, 2, "it holds a search that is complete; leave --resume out"),
    ):
        found = called("tune", MLP, "--batch", batch, "--resume", path)
        assert found.code == code
        assert words in found.err

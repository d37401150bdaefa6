"""benchmarks/tune_winner.py with simulated processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tune_winner
from simulated_search import Machine
from stored_search import TUNING, searched

from modelzoo.frozen import replace
from modelzoo.records.race import Exclusion, ExclusionKind
from modelzoo.records.run import Result, SettingRequest
from modelzoo.results import store
from modelzoo.setting import Setting


def found() -> Result:
    """A search of the example workload, whose winner is compile with channels-last."""
    result = searched()
    requested = tuple(SettingRequest("mlp", each.setting) for each in result.requested)
    runs = tuple(replace(run, workload="mlp") for run in result.runs)
    return replace(result, requested=requested, runs=runs, payload=replace(TUNING, workload="examples/mlp"))


def main(path: Path, monkeypatch: pytest.MonkeyPatch, machine: Machine, *words: str) -> int:
    """The benchmark's exit code."""
    store.write(found(), path)
    monkeypatch.setattr(tune_winner, "Rounds", machine.rounds)
    monkeypatch.setattr(sys, "argv", ["tune_winner.py", str(path), *words])
    return tune_winner.main()


def level(setting: Setting, number: int) -> float:
    """Compiled with channels-last is the best; a script comes close."""
    if setting.mode == "eager":
        return 1.0
    return 0.40 if setting.channels_last else 0.5


def test_the_winner_is_the_best_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Then both are one setting, and the ratio is 1; all runs are stored."""
    words = ("--speedup", "2.4", "-o", str(tmp_path / "again.json"))
    assert main(tmp_path / "r.json", monkeypatch, Machine(level), *words) == 0
    out = capsys.readouterr().out
    assert "holds: time of the winner ÷ the best of all: 1.000" in out
    assert "holds: speedup over the default: 2.50, at least 2.4" in out
    assert len(store.read(tmp_path / "again.json").runs) == 3 * 4 + 12 * 2


def test_a_better_candidate_that_the_search_missed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Also one that was slower in the search."""
    missed = Machine(lambda setting, number: 0.3 if setting.mode == "script" else level(setting, number))
    assert main(tmp_path / "r.json", monkeypatch, missed) == 1
    assert "DOES NOT HOLD: time of the winner ÷ the best of all: 1.333" in capsys.readouterr().out


def test_candidates_that_must_not_win_take_no_part() -> None:
    """Only time may have excluded them."""
    wrong = Exclusion(1, ExclusionKind.WRONG_OUTPUTS)
    result = found()
    assert tune_winner.eligible(result) == [1, 2, 3]
    assert tune_winner.eligible(replace(result, payload=replace(TUNING, excluded=(wrong,)))) == [2, 3]


def test_a_search_without_a_winner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to measure again."""
    path = tmp_path / "none.json"
    store.write(replace(found(), payload=replace(TUNING, choice=None)), path)
    monkeypatch.setattr(sys, "argv", ["tune_winner.py", str(path)])
    with pytest.raises(SystemExit, match="the search has no winner"):
        tune_winner.main()

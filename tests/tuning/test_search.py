"""Searches with simulated processes: what is measured, excluded, chosen, confirmed, and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_runs import WEIGHTS
from simulated_search import BEGIN, Machine, speeds
from toy_workloads import mlp

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.race import ExclusionKind, StageKind
from modelzoo.records.run import Result, SettingRequest, ValidityEntry
from modelzoo.records.tuning import Goal, Tuning
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store, tuning
from modelzoo.setting import Setting
from modelzoo.tuning import halving, search

BASE = Setting(threads=1, batch=4)
COMPILED = BASE.replace(mode="compile")
SCRIPT = BASE.replace(mode="script")
BF16 = BASE.replace(precision="bf16", bf16_method="autocast")


def begin(path: Path, *settings: Setting, budget: float = 3600.0, **changes: Any) -> store.ResultFile:
    """A search that has not begun."""
    found = Tuning("mlp", Goal.LATENCY, budget, len(settings), **changes)
    requested = tuple(SettingRequest("mlp", setting) for setting in settings)
    return store.ResultFile(path, Result(("modelzoo", "tune"), BEGIN.isoformat(), requested, payload=found))


def no_judge(setting: Setting, group: int) -> ValidityEntry:
    """Nothing is to be judged."""
    raise AssertionError(f"{setting.label} was judged")


def run(machine: Machine, stored: store.ResultFile, monkeypatch: pytest.MonkeyPatch, judge: Any = no_judge) -> Result:
    """Search to the end; return what is then stored. Nothing is written before: that would take most of the time."""
    monkeypatch.setattr(search, "Rounds", machine.rounds)
    with monkeypatch.context() as patch:
        patch.setattr(store.ResultFile, "_store", lambda stored, result: setattr(stored, "result", result))
        try:
            search.Search(stored, mlp(), judge, lambda event: None, clock=machine.clock).run()
        finally:
            patch.undo()
            store.write(stored.result, stored.path)
    return store.read(stored.path)


def test_the_winner_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In new processes, and only they decide; the steps in between are measured as well."""
    machine = Machine(speeds(compile=2.0, script=1.2))
    both = COMPILED.replace(channels_last=True)
    result = run(machine, begin(tmp_path / "r.json", BASE, COMPILED, SCRIPT, both), monkeypatch)
    found = tuning.of(result)
    assert found.is_complete
    assert found.choice is not None
    assert result.requested[found.choice.winner].setting == COMPILED, (
        "channels-last adds nothing, so the simpler one wins"
    )
    assert tuning.is_faster(result)
    confirmation = found.stage(StageKind.CONFIRMATION)
    assert confirmation is not None
    assert confirmation.rounds == halving.CONFIRMATION_ROUNDS[1]
    speed = tuning.confirmed(result)
    assert speed is not None
    assert speed.ratio is not None
    assert speed.ratio.value == pytest.approx(2.0, rel=0.02)
    part = tuning.confirmation(result)
    assert part is not None
    assert min(each.round for each in part.runs) == confirmation.first_round
    assert [rung.label for rung in tuning.steps(result)] == [
        tuning.name(result, each) for each in (0, found.choice.winner)
    ]


def test_a_step_that_cannot_run_does_not_end_the_confirmation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The winner still has all of its processes, and the step that reported an error is tried once."""
    machine = Machine(
        speeds(compile=2.0),
        error=lambda setting: "it takes two threads" if setting == COMPILED else None,
        kind="UnsupportedError",
    )
    result = run(machine, begin(tmp_path / "r.json", BASE, COMPILED.replace(threads=2)), monkeypatch)
    confirmation = tuning.of(result).stage(StageKind.CONFIRMATION)
    assert confirmation is not None
    _, step, winner = confirmation.entrants
    ran = [each.group for each in tuning.runs_of(result, confirmation)]
    assert [ran.count(group) for group in (winner, step)] == [halving.CONFIRMATION_ROUNDS[1], 1]


def test_nothing_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer, not a failure: candidates that are all alike lead to the default."""
    machine = Machine(speeds())
    result = run(machine, begin(tmp_path / "r.json", BASE, COMPILED, SCRIPT), monkeypatch)
    found = tuning.of(result)
    assert found.is_complete
    assert not tuning.is_faster(result)


def test_a_slow_model_is_sampled_several_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes; what a process samples before is not known."""
    result = run(Machine(lambda setting, number: 10.0), begin(tmp_path / "r.json", BASE, COMPILED), monkeypatch)
    probe, *stages = tuning.of(result).stages
    assert probe.seconds == halving.SAMPLING_SECONDS
    assert {stage.seconds for stage in stages} == {10.0 * halving.SAMPLES}


def test_a_lucky_candidate_is_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was faster in the search, and is not when it is measured again."""
    searched = 3 + 2 * halving.MOST_ROUNDS
    machine = Machine(lambda setting, number: 0.8 if setting == COMPILED and len(machine.ran) <= searched else 1.0)
    result = run(machine, begin(tmp_path / "r.json", BASE, COMPILED), monkeypatch)
    found = tuning.of(result)
    assert found.choice is not None
    assert found.choice.winner == 1
    assert not tuning.is_faster(result)


def test_slower_candidates_are_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each stage measures half of the candidates; those that are out say how fast they were."""
    settings = [BASE.replace(threads=1 + number, mode="script") for number in range(1, 17)]
    machine = Machine(lambda setting, number: 1 / (1 + (setting.threads or 0) / 10))
    result = run(machine, begin(tmp_path / "r.json", BASE, *settings), monkeypatch)
    found = tuning.of(result)
    stages = [stage for stage in found.stages if stage.kind is StageKind.SEARCH]
    assert [len(stage.entrants) - 1 for stage in stages] == [16, 8, 4]
    assert [stage.rounds for stage in stages] == sorted(stage.rounds for stage in stages)
    assert found.choice is not None
    assert found.choice.winner == 16
    assert {each.entrant for each in found.excluded if each.kind is ExclusionKind.SLOWER} == set(range(1, 13))


def test_what_was_never_measured_does_not_enter_another_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not among the best of those that were."""
    settings = [BASE.replace(threads=1 + number, mode="script") for number in range(1, 17)]
    ranked = search.Search.ranked
    monkeypatch.setattr(search.Search, "ranked", lambda self: [each for each in ranked(self) if each != 1])
    found = tuning.of(run(Machine(speeds(script=1.5)), begin(tmp_path / "r.json", BASE, *settings), monkeypatch))
    first, *later = (set(stage.entrants) for stage in found.stages if stage.kind is StageKind.SEARCH)
    assert 1 in first
    assert [1 in entrants for entrants in later] == [False, False]


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any number of processes; what has been measured is not measured again."""
    whole = Machine(speeds(compile=2.0, script=1.2))
    expected = run(whole, begin(tmp_path / "whole.json", BASE, COMPILED, SCRIPT), monkeypatch)
    for stop in (0, 1, 3, 6, len(whole.ran) - 1):
        path = tmp_path / f"{stop}.json"
        machine = Machine(speeds(compile=2.0, script=1.2), stops_after=stop)
        with pytest.raises(KeyboardInterrupt):
            run(machine, begin(path, BASE, COMPILED, SCRIPT), monkeypatch)
        stored = store.read(path)
        assert not tuning.of(stored).is_complete
        assert len(stored.runs) == stop
        machine.stops_after = 10**6
        result = run(machine, store.ResultFile(path, stored), monkeypatch)
        assert tuning.of(result).choice == tuning.of(expected).choice
        assert len(result.runs) <= len(expected.runs) + 4, "at most one sweep is repeated"
        assert tuning.of(result).spent == pytest.approx(machine.now)


def test_a_stage_that_another_one_followed_is_not_measured_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more time than before, an interrupted confirmation goes on; a stage of the search that had none does not."""
    settings = [BASE.replace(threads=1 + number, mode="script") for number in range(1, 16)] + [COMPILED]
    level = speeds(compile=2.0, script=1.2)
    whole = run(Machine(level), begin(tmp_path / "whole.json", BASE, *settings), monkeypatch)
    found = tuning.of(whole)
    *earlier, last, confirmation = found.stages
    empty = replace(last, first_round=confirmation.first_round)
    begun = tuple(
        each for each in whole.runs if each.round < last.first_round or each.round == confirmation.first_round
    )
    stopped = replace(found, stages=(*earlier, empty, confirmation), is_complete=False, budget=7200.0)
    machine = Machine(level)
    stored = store.ResultFile(tmp_path / "stopped.json", replace(whole, runs=begun, payload=stopped))
    result = run(machine, stored, monkeypatch)
    assert tuning.runs_of(result, empty) == []
    assert len(machine.ran) == 2 * (confirmation.rounds - 1)
    assert tuning.is_faster(result)


def test_the_budget_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates that it does not reach are named, and there is time to measure the winner again."""
    settings = [BASE.replace(threads=1 + number, mode="script") for number in range(1, 31)]
    machine = Machine(speeds(script=1.5), cost=10.0)
    result = run(machine, begin(tmp_path / "r.json", BASE, *settings, budget=400.0), monkeypatch)
    found = tuning.of(result)
    assert machine.now <= 400.0
    skipped = [each for each in found.excluded if each.kind is ExclusionKind.NOT_MEASURED]
    assert skipped
    assert skipped[0].entrant > 1, "the list is measured from its beginning"
    assert found.choice is not None
    assert found.choice.winner
    assert tuning.is_faster(result)


def test_a_candidate_that_must_not_win_is_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast it is; it is measured once, and its reason is recorded."""
    machine = Machine(
        speeds(compile=3.0, script=3.0),
        changes=lambda setting: {"weights": replace(WEIGHTS, sha256="other")} if setting == SCRIPT else {},
        error=lambda setting: "it cannot be compiled" if setting == COMPILED else None,
    )
    result = run(machine, begin(tmp_path / "r.json", BASE, COMPILED, SCRIPT), monkeypatch)
    found = tuning.of(result)
    assert [each.kind for each in found.excluded] == [ExclusionKind.FAILED, ExclusionKind.WRONG_OUTPUTS]
    assert found.choice is not None
    assert found.choice.winner == 0
    assert sum(label in (COMPILED.label, SCRIPT.label) for label, _ in machine.ran) == 2


def test_bf16_with_random_weights_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its predictions cannot be judged, so it could not win; --allow-unjudged lets it."""
    machine = Machine(speeds(bf16=2.0))
    result = run(machine, begin(tmp_path / "r.json", BASE, BF16), monkeypatch)
    assert [each.kind for each in tuning.of(result).excluded] == [ExclusionKind.NO_JUDGE]
    assert len(machine.ran) == 1, "the default alone"
    result = run(machine, begin(tmp_path / "r.json", BASE, BF16, allow_unjudged=True), monkeypatch)
    assert tuning.is_faster(result)


def test_bf16_is_judged_before_the_last_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and what is not valid is out."""
    weights = replace(WEIGHTS, kind=WeightsKind.PRETRAINED)
    machine = Machine(speeds(bf16=2.0), changes=lambda setting: {"weights": weights})
    judged: list[int] = []

    def judge(setting: Setting, group: int) -> ValidityEntry:
        judged.append(group)
        return ValidityEntry("mlp", group, setting, exit_code=2, error="the picture is missing")

    stored = begin(tmp_path / "r.json", BASE, BF16, COMPILED)
    work = replace(mlp(), judge=lambda options: None)
    monkeypatch.setattr(search, "Rounds", machine.rounds)
    search.Search(stored, work, judge, lambda event: None, clock=machine.clock).run()
    assert judged == [1]
    (excluded,) = (each for each in tuning.of(stored.result).excluded if each.entrant == 1)
    assert excluded.kind is ExclusionKind.NOT_JUDGED


def test_a_default_that_cannot_run_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be compared with it."""
    machine = Machine(speeds(), error=lambda setting: "no such device" if setting.mode == "eager" else None)
    with pytest.raises(WorkerError, match="the default setting failed: no such device"):
        run(machine, begin(tmp_path / "r.json", BASE, COMPILED), monkeypatch)

"""Searches with simulated processes: what is measured, excluded, chosen, confirmed, and gone on with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_runs import WEIGHTS
from simulated_search import BEGIN, Machine, speeds
from toy_workloads import mlp

from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.plan import Goal
from modelzoo.records.race import ExclusionKind, StageKind, Tuning
from modelzoo.records.run import Result, SettingRequest, ValidityEntry
from modelzoo.records.workload import WeightsKind
from modelzoo.results import store, tuning
from modelzoo.setting import Setting
from modelzoo.tuning import decisions, search
from modelzoo.workload import Workload

BASE = Setting(threads=1, batch=4)
COMPILED = BASE.replace(mode="compile")
SCRIPT = BASE.replace(mode="script")
BF16 = BASE.replace(precision="bf16", bf16_method="autocast")
SCRIPTS = [BASE.replace(threads=1 + number, mode="script") for number in range(1, 31)]


def begun(*settings: Setting, budget: float = 3600.0, **changes: Any) -> Result:
    """A search that has not begun."""
    found = Tuning("mlp", Goal.LATENCY, budget, len(settings), **changes)
    requested = tuple(SettingRequest("mlp", setting) for setting in settings)
    return Result(("modelzoo", "tune"), BEGIN.isoformat(), requested, payload=found)


def no_judge(setting: Setting, group: int) -> ValidityEntry:
    """Nothing is to be judged."""
    raise AssertionError(f"{setting.label} was judged")


Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Search to the end; return what is then stored. Nothing is written before: that would take most of the time."""
    path = tmp_path / "r.json"
    monkeypatch.setattr(store.ResultFile, "_store", lambda stored, result: setattr(stored, "result", result))

    def run(machine: Machine, result: Result, judge: search.Judge = no_judge, work: Workload | None = None) -> Result:
        monkeypatch.setattr(search, "Rounds", machine.rounds)
        monkeypatch.setattr(search, "perf_counter", lambda: machine.now)
        stored = store.ResultFile(path, result)
        try:
            search.Search(stored, work or mlp(), judge, lambda event: None).run()
        finally:
            store.write(stored.result, path)
        return store.read(path)

    return run


def test_the_winner_is_measured_again(run: Run) -> None:
    """In new processes, and only they decide; the steps in between are measured as well."""
    both = COMPILED.replace(channels_last=True)
    result = run(Machine(speeds(compile=2.0, script=1.2)), begun(BASE, COMPILED, SCRIPT, both))
    found, speed, part = tuning.of(result), tuning.confirmed(result), tuning.confirmation(result)
    confirmation = found.stage(StageKind.CONFIRMATION)
    assert found.is_complete and tuning.is_faster(result)
    assert found.choice is not None and confirmation is not None and speed is not None and part is not None
    winner = found.choice.winner
    assert result.requested[winner].setting == COMPILED, "channels-last adds nothing, so the simpler one wins"
    assert confirmation.rounds == decisions.CONFIRMATION_ROUNDS[1]
    assert speed.ratio is not None and speed.ratio.value == pytest.approx(2.0, rel=0.02)
    assert min(each.round for each in part.runs) == confirmation.first_round
    assert [rung.label for rung in tuning.steps(result)] == [tuning.name(result, each) for each in (0, winner)]


def test_a_step_that_cannot_run_does_not_end_the_confirmation(run: Run) -> None:
    """The winner still has all of its processes, and the step that reported an error is tried once."""
    machine = Machine(
        speeds(compile=2.0),
        error=lambda setting: "it takes two threads" if setting == COMPILED else None,
        kind="UnsupportedError",
    )
    result = run(machine, begun(BASE, COMPILED.replace(threads=2)))
    confirmation = tuning.of(result).stage(StageKind.CONFIRMATION)
    assert confirmation is not None
    _, step, winner = confirmation.entrants
    ran = [each.group for each in tuning.runs_of(result, confirmation)]
    assert [ran.count(group) for group in (winner, step)] == [decisions.CONFIRMATION_ROUNDS[1], 1]


def test_a_slow_model_is_sampled_several_times(run: Run) -> None:
    """However long that takes; what a process samples before is not known."""
    probe, *stages = tuning.of(run(Machine(lambda setting, number: 10.0), begun(BASE, COMPILED))).stages
    assert [probe.seconds, *{stage.seconds for stage in stages}] == [
        decisions.SAMPLING_SECONDS,
        10.0 * decisions.SAMPLES,
    ]


def test_a_lucky_candidate_is_not_confirmed(run: Run) -> None:
    """It was faster in the search, and is not when it is measured again."""
    searched = 3 + 2 * decisions.MOST_ROUNDS
    machine = Machine(lambda setting, number: 0.8 if setting == COMPILED and len(machine.ran) <= searched else 1.0)
    result = run(machine, begun(BASE, COMPILED))
    choice = tuning.of(result).choice
    assert choice is not None and choice.winner == 1
    assert not tuning.is_faster(result)


def test_slower_candidates_are_halved(run: Run) -> None:
    """Each stage measures half of the candidates; those that are out say how fast they were."""
    machine = Machine(lambda setting, number: 1 / (1 + (setting.threads or 0) / 10))
    found = tuning.of(run(machine, begun(BASE, *SCRIPTS[:16])))
    stages = [stage for stage in found.stages if stage.kind is StageKind.SEARCH]
    assert [len(stage.entrants) - 1 for stage in stages] == [16, 8, 4]
    assert [stage.rounds for stage in stages] == sorted(stage.rounds for stage in stages)
    assert found.choice is not None and found.choice.winner == 16
    assert {each.entrant for each in found.excluded if each.kind is ExclusionKind.SLOWER} == set(range(1, 13))


def test_what_was_never_measured_does_not_enter_another_stage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not among the best of those that were."""
    ranked = search.Search.ranked
    monkeypatch.setattr(search.Search, "ranked", lambda self: [each for each in ranked(self) if each != 1])
    found = tuning.of(run(Machine(speeds(script=1.5)), begun(BASE, *SCRIPTS[:16])))
    first, *later = (set(stage.entrants) for stage in found.stages if stage.kind is StageKind.SEARCH)
    assert 1 in first
    assert [1 in entrants for entrants in later] == [False, False]


@pytest.mark.parametrize("stop", [0, 1, 3, 6, -1])
def test_an_interrupted_search_goes_on_where_it_was(stop: int, run: Run, tmp_path: Path) -> None:
    """After any number of processes; what has been measured is not measured again."""
    level = speeds(compile=2.0, script=1.2)
    whole = Machine(level)
    expected = run(whole, begun(BASE, COMPILED, SCRIPT))
    stop %= len(whole.ran)
    machine = Machine(level, stops_after=stop)
    with pytest.raises(KeyboardInterrupt):
        run(machine, begun(BASE, COMPILED, SCRIPT))
    stored = store.read(tmp_path / "r.json")
    assert not tuning.of(stored).is_complete
    assert len(stored.runs) == stop
    machine.stops_after = 10**6
    result = run(machine, stored)
    assert tuning.of(result).choice == tuning.of(expected).choice
    assert len(result.runs) <= len(expected.runs) + 4, "at most one sweep is repeated"
    assert tuning.of(result).spent == pytest.approx(machine.now)


def test_a_stage_that_another_one_followed_is_not_measured_any_more(run: Run) -> None:
    """With more time than before, an interrupted confirmation goes on; a stage of the search that had none does not."""
    level = speeds(compile=2.0, script=1.2)
    whole = run(Machine(level), begun(BASE, *SCRIPTS[:15], COMPILED))
    found = tuning.of(whole)
    *earlier, last, confirmation = found.stages
    empty = replace(last, first_round=confirmation.first_round)
    kept = tuple(each for each in whole.runs if each.round < last.first_round or each.round == confirmation.first_round)
    stopped = replace(found, stages=(*earlier, empty, confirmation), is_complete=False, budget=7200.0)
    machine = Machine(level)
    result = run(machine, replace(whole, runs=kept, payload=stopped))
    assert tuning.runs_of(result, empty) == []
    assert len(machine.ran) == 2 * (confirmation.rounds - 1)
    assert tuning.is_faster(result)


def test_the_budget_is_respected(run: Run) -> None:
    """Candidates that it does not reach are named, and there is time to measure the winner again."""
    machine = Machine(speeds(script=1.5), cost=10.0)
    result = run(machine, begun(BASE, *SCRIPTS, budget=400.0))
    found = tuning.of(result)
    assert machine.now <= 400.0
    skipped = [each for each in found.excluded if each.kind is ExclusionKind.NOT_MEASURED]
    assert skipped and skipped[0].entrant > 1, "the list is measured from its beginning"
    assert found.choice is not None and found.choice.winner
    assert tuning.is_faster(result)


def test_a_candidate_that_must_not_win_is_out(run: Run) -> None:
    """However fast it is; it is measured once, and its reason is recorded."""
    machine = Machine(
        speeds(compile=3.0, script=3.0),
        changes=lambda setting: {"weights": replace(WEIGHTS, sha256="other")} if setting == SCRIPT else {},
        error=lambda setting: "it cannot be compiled" if setting == COMPILED else None,
    )
    found = tuning.of(run(machine, begun(BASE, COMPILED, SCRIPT)))
    assert [each.kind for each in found.excluded] == [ExclusionKind.FAILED, ExclusionKind.WRONG_OUTPUTS]
    assert found.choice is not None and found.choice.winner == 0
    assert sum(label in (COMPILED.label, SCRIPT.label) for label, _ in machine.ran) == 2


def test_bf16_with_random_weights_is_not_measured(run: Run) -> None:
    """Its predictions cannot be judged, so it could not win; --allow-unjudged lets it."""
    machine = Machine(speeds(bf16=2.0))
    found = tuning.of(run(machine, begun(BASE, BF16)))
    assert [each.kind for each in found.excluded] == [ExclusionKind.NO_JUDGE]
    assert len(machine.ran) == 1, "the default alone"
    assert tuning.is_faster(run(machine, begun(BASE, BF16, allow_unjudged=True)))


def test_bf16_is_judged_before_the_last_stage(run: Run) -> None:
    """Once, and what is not valid is out."""
    weights = replace(WEIGHTS, kind=WeightsKind.PRETRAINED)
    judged: list[int] = []

    def judge(setting: Setting, group: int) -> ValidityEntry:
        judged.append(group)
        return ValidityEntry("mlp", group, setting, exit_code=2, error="the picture is missing")

    machine = Machine(speeds(bf16=2.0), changes=lambda setting: {"weights": weights})
    result = run(machine, begun(BASE, BF16, COMPILED), judge, replace(mlp(), judge=lambda options: None))
    assert judged == [1]
    (excluded,) = (each for each in tuning.of(result).excluded if each.entrant == 1)
    assert excluded.kind is ExclusionKind.NOT_JUDGED


def test_a_default_that_cannot_run_ends_the_search(run: Run) -> None:
    """Nothing could be compared with it."""
    machine = Machine(speeds(), error=lambda setting: "no such device" if setting.mode == "eager" else None)
    with pytest.raises(WorkerError, match="the default setting failed: no such device"):
        run(machine, begun(BASE, COMPILED))

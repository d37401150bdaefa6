"""A session."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from calls import Call, called
from example_machine import SERVER, machine_with
from fake_runs import make
from toy_workloads import MLP

from modelzoo.cli import run as command
from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import facts, sensors
from modelzoo.measure import schedule
from modelzoo.plan import Effort, Plan
from modelzoo.records.run import Run, ValidityEntry
from modelzoo.records.timing import Design, StopReason
from modelzoo.results import store
from modelzoo.setting import Setting

BF16 = Setting("bf16")
Outcome = Run | Design | BaseException
PLANNED = Design("mlp", 0.05, 600.0, looks=(8, 16), maximum=16)


def rounds(count: int) -> list[Outcome]:
    """Rounds of two settings, the second one half as fast, each followed by the design as it is then."""
    found: list[Outcome] = []
    for number in range(count):
        for group, setting in enumerate((Setting(), BF16)):
            level = 0.1 * (1 + group) * (1 + 0.01 * (number % 3))
            found.append(make([level] * 5, workload="mlp", setting=setting, group=group, round=number))
        found.append(PLANNED)
    return found


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Replace the machine and all measurements; return what the schedule was asked for."""
    monkeypatch.setattr(facts, "read_machine", lambda: SERVER)

    def simulate(outcomes: Sequence[Outcome]) -> list[Any]:
        requested: list[Any] = []

        def measure(*args: object) -> Iterator[Outcome]:
            requested.append(args)
            for each in outcomes:
                if isinstance(each, BaseException):
                    raise each
                yield each

        monkeypatch.setattr(schedule, "measure", measure)
        return requested

    return simulate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "r.json"


def run(path: Path, *options: object) -> Call:
    return called("run", MLP, "--threads", "2", "--json", path, *options)


def targets(out: str) -> list[str]:
    return [line.split()[1] for line in out.splitlines()]


Simulate = Callable[[Sequence[Outcome]], list[Any]]


def test_runs_and_designs_are_stored_as_they_come(simulated: Simulate, path: Path) -> None:
    """The latest design of a workload counts."""
    ended = replace(PLANNED, stop_reason=StopReason.PRECISE)
    simulated([*rounds(8), ended])
    assert run(path).code == 0
    result = store.read(path)
    assert (len(result.runs), result.latency.designs) == (16, (ended,))


def test_a_result_on_stdout_is_json_alone(simulated: Simulate, tmp_path: Path) -> None:
    """What is piped into jq is the stored result, in which a terminal finds no command; other lines are on stderr."""
    simulated(rounds(1))
    code, out, err = called("run", MLP, "--threads", "2", "-o", "-", "--label", "\x9b\u202e é")
    (stored,) = (tmp_path / "results").glob("*.json")
    assert (code, json.loads(out)) == (0, json.loads(stored.read_text(encoding="utf-8")))
    assert '"\\u009b\\u202e é"' in out
    assert "[TARGET] mlp-bf16 Time " in err


def test_an_interrupted_session_says_so_in_its_designs(simulated: Simulate, path: Path) -> None:
    """What has finished is stored and shown with the verdict of its last planned look; what had ended had ended."""
    ended = replace(PLANNED, workload="done", stop_reason=StopReason.FIXED)
    simulated([ended, *rounds(9), KeyboardInterrupt()])
    code, out, err = run(path)
    assert (code, targets(out)) == (130, ["mlp", "mlp-bf16"])
    assert f"modelzoo: interrupted; 18 finished runs are in {path}" in err
    assert "SLOWER" in err
    result = store.read(path)
    assert len(result.runs) == 18
    stopped = {design.workload: design.stop_reason for design in result.latency.designs}
    assert stopped == {"done": StopReason.FIXED, "mlp": StopReason.INTERRUPTED}


def test_a_session_interrupted_before_its_first_look_has_no_verdict(simulated: Simulate, path: Path) -> None:
    """Four rounds that are twice as slow: who stops there may do so because of what they saw."""
    simulated([*rounds(4), KeyboardInterrupt()])
    code, _, err = run(path)
    assert code == 130
    assert "SLOWER" not in err
    assert "4 rounds are fewer than were planned for a verdict" in " ".join(err.split())


def test_what_was_finished_is_shown_before_an_error(simulated: Simulate, path: Path) -> None:
    """The error is the last line, and the result is named."""
    simulated([*rounds(1), EnvironmentProblem("the GPU is gone")])
    code, out, err = run(path)
    assert (code, targets(out)) == (2, ["mlp", "mlp-bf16"])
    assert f"result: {path}" in err
    assert err.splitlines()[-1] == "modelzoo: error: the GPU is gone"


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, after: int, other: Path | None = None) -> None:
    """Let ``after`` writes of the result succeed, and no more; ``other`` is a directory on another disk."""
    writes: list[Path] = []
    write = store.write_atomically
    monkeypatch.setattr("tempfile.tempdir", str(other or __file__))

    def full(path: Path, content: str | bytes) -> None:
        writes.append(path)
        if len(writes) > after and not (other and path.is_relative_to(other)):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(store, "write_atomically", full)


@pytest.mark.parametrize("has_room", [True, False])
def test_a_full_disk_loses_nothing(
    has_room: bool, simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on, in a file on another disk, or if that is full too, in memory; the exit code is 2."""
    simulated(rounds(8))
    other = path.parent / "other"
    other.mkdir()
    fill_the_disk(monkeypatch, after=10, other=other if has_room else None)
    code, out, err = run(path)
    assert (code, targets(out)) == (2, ["mlp", "mlp-bf16"])
    assert "SLOWER" in err
    kept = next(other.rglob("*.json"), None)
    assert ("result: " in err) == has_room
    problem = f"modelzoo: error: cannot write {path}: No space left on device; it is in {kept or 'no file'}"
    assert err.splitlines()[-1] == problem
    assert kept is None or len(store.read(kept).runs) == 16


def test_a_disk_that_is_full_at_ctrl_c_is_still_an_interruption(
    simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The designs are ended in memory only."""
    simulated([*rounds(1), KeyboardInterrupt()])
    fill_the_disk(monkeypatch, after=3)
    code, _, err = run(path)
    assert code == 130
    assert "modelzoo: interrupted; 2 finished runs are in no file\n" in err


def test_every_option_of_the_measurement_is_passed_on(simulated: Simulate, path: Path) -> None:
    """What is not given is decided from what is measured."""
    requested = simulated(rounds(1))
    words = "--processes 4 --max-seconds 3 --iterations 9 --warmup 2 --no-audit --margin 2.5% --budget 10m"
    run(path, *words.split())
    ((request,), effort, *_) = requested[0]
    assert (request.plan, request.audit, effort) == (Plan(2, 9, 3.0), False, Effort(4, 0.025, 600.0))


def test_nothing_is_repeated_under_an_emulator(
    simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one process per setting."""
    emulated = machine_with(emulator="qemu-user")
    monkeypatch.setattr(facts, "read_machine", lambda: emulated)
    untimed = [make(None, workload="mlp", setting=each, group=i) for i, each in enumerate((Setting(), BF16))]
    requested = simulated(untimed)
    run(path, "--processes", "5")
    assert requested[0][1] == Effort(processes=1)


def test_clocks_are_locked_while_the_session_runs(
    simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not after it."""
    events: list[object] = []

    @contextmanager
    def locked(mhz: int | None) -> Iterator[None]:
        events.append(mhz)
        yield
        events.append("set back")

    monkeypatch.setattr(sensors, "locked_clocks", locked)
    requested = simulated(rounds(1))
    run(path, "--lock-clocks", "1200", "--device", "cuda")
    assert events == [1200, "set back"]
    assert {request.locked_mhz for request in requested[0][0]} == {1200}


@pytest.mark.parametrize(("options", "includes_judging"), [(("--budget", "60s"), True), ((), False)])
def test_a_budget_that_was_given_is_for_judging_too(
    options: tuple[str, ...], includes_judging: bool, simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Predictions are judged first, but for the reference's; the default budget is for timing alone."""
    requested, now = simulated(rounds(1)), [100.0]
    judged: list[str] = []

    def judge_setting(work: Any, setting: Setting, group: int, *rest: object) -> ValidityEntry:
        assert not requested
        judged.append(setting.precision)
        now[0] += 45.0
        return ValidityEntry(work.name, group, setting, exit_code=0)

    monkeypatch.setattr(command, "judge_setting", judge_setting)
    monkeypatch.setattr(command, "perf_counter", lambda: now[0])
    code, _, err = run(path, "--validate", "--artifacts", path.parent, *options)
    assert (code, judged) == (0, ["bf16"])
    assert requested[0][-1] == (45.0 if includes_judging else 0.0)
    assert ("judging took 45 s of the budget of 1 min" in err) is includes_judging
    assert len(store.read(path).validity) == 1


def test_an_interruption_while_predictions_are_judged_is_no_traceback(
    simulated: Simulate, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has been timed then, so there is no table."""

    def interrupted(*args: object) -> ValidityEntry:
        raise KeyboardInterrupt

    simulated(rounds(1))
    monkeypatch.setattr(command, "judge_setting", interrupted)
    code, _, err = run(path, "--validate", "--artifacts", path.parent)
    assert code == 130
    assert f"modelzoo: interrupted; 0 finished runs are in {path}" in err


@pytest.mark.parametrize(
    ("command", "words", "lines"),
    [
        ("run", "--weights pretrained", ("       bf16",)),
        ("run", "--processes 3", ("processes: 3 per setting", "time: not known")),
        ("run", "--validate", ("accuracy checks, which come first, is not known",)),
        ("load", "--scenario offline", ("decided when it runs: how many requests there are", "at least 13 s")),
        ("load", "--find --slo p99=50ms", ("repeats: 3, each with new instances", "about 9 min 9 s if")),
    ],
)
def test_a_dry_run_starts_nothing(
    command: str, words: str, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No weights are needed, no result is written. More plans are in the snapshots."""
    for name in ("measure.schedule.measure", "measure.jobs.prepare", "results.store.write"):
        monkeypatch.setattr(f"modelzoo.{name}", None)
    code, out, _ = called(command, MLP, "--dry-run", *words.split())
    assert code == 0
    assert all(line in out for line in (*lines, "Nothing was started.")), out

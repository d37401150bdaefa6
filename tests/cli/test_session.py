"""A session."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from example_machine import SERVER, machine_with
from fake_runs import make, result_of
from toy_workloads import MLP

from modelzoo import cli
from modelzoo.cli import session
from modelzoo.frozen import replace
from modelzoo.machine import facts, sensors
from modelzoo.measure import schedule
from modelzoo.plan import Effort
from modelzoo.records.run import Run, ValidityEntry
from modelzoo.records.timing import Design, StopReason
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.views.run import baseline_lines

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


def run(path: Path, *options: str) -> int:
    """``modelzoo run examples/mlp`` in this process."""
    return cli.main(["run", str(MLP), "--threads", "2", "--json", str(path), *options])


Simulate = Callable[[Sequence[Outcome]], list[Any]]


def test_runs_and_designs_are_stored_as_they_come(simulated: Simulate, tmp_path: Path) -> None:
    """The latest design of a workload counts."""
    ended = replace(PLANNED, stop_reason=StopReason.PRECISE)
    simulated([*rounds(8), ended])
    assert run(tmp_path / "r.json") == 0
    result = store.read(tmp_path / "r.json")
    assert len(result.runs) == 16
    assert result.latency.designs == (ended,)


def test_an_interrupted_session_says_so_in_its_designs(
    simulated: Simulate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C: what has finished is stored and shown with the verdict of its last planned look; exit code 130."""
    simulated([*rounds(9), KeyboardInterrupt()])
    assert run(tmp_path / "r.json") == 130
    result = store.read(tmp_path / "r.json")
    assert len(result.runs) == 18
    assert [design.stop_reason for design in result.latency.designs] == [StopReason.INTERRUPTED]
    captured = capsys.readouterr()
    assert f"modelzoo: interrupted; 18 finished runs are in {tmp_path / 'r.json'}" in captured.err
    assert "SLOWER" in captured.err
    assert [line.split()[1] for line in captured.out.splitlines()] == ["mlp", "mlp-bf16"]


def test_a_session_interrupted_before_its_first_look_has_no_verdict(
    simulated: Simulate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four rounds that are twice as slow: who stops there may do so because of what they saw."""
    simulated([*rounds(4), KeyboardInterrupt()])
    assert run(tmp_path / "r.json") == 130
    captured = capsys.readouterr()
    assert "SLOWER" not in captured.err
    assert "4 rounds are fewer than were planned for a verdict" in " ".join(captured.err.split())


def test_an_ended_workload_was_not_interrupted(simulated: Simulate, tmp_path: Path) -> None:
    """Only those that were still running."""
    ended = replace(PLANNED, workload="done", stop_reason=StopReason.FIXED)
    simulated([ended, *rounds(1), KeyboardInterrupt()])
    assert run(tmp_path / "r.json") == 130
    found = {each.workload: each.stop_reason for each in store.read(tmp_path / "r.json").latency.designs}
    assert found == {"done": StopReason.FIXED, "mlp": StopReason.INTERRUPTED}


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


def test_a_full_disk_loses_nothing(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The session goes on, in a file on another disk, which is named; the exit code is 2."""
    simulated(rounds(8))
    other = tmp_path / "other"
    other.mkdir()
    fill_the_disk(monkeypatch, after=10, other=other)
    assert run(tmp_path / "r.json") == 2
    captured = capsys.readouterr()
    assert "SLOWER" in captured.err
    assert [line.split()[1] for line in captured.out.splitlines()] == ["mlp", "mlp-bf16"]
    (kept,) = other.rglob("*.json")
    assert f"result: {kept}\n" in captured.err
    problem = f"modelzoo: error: cannot write {tmp_path / 'r.json'}: No space left on device; it is in {kept}"
    assert captured.err.splitlines()[-1] == problem
    assert len(store.read(kept).runs) == 16


def test_a_result_that_is_in_no_file_is_shown(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All disks are full: the table and the lines for scripts come from memory, and no file is named."""
    simulated(rounds(8))
    fill_the_disk(monkeypatch, after=10)
    assert run(tmp_path / "r.json") == 2
    captured = capsys.readouterr()
    assert "SLOWER" in captured.err
    assert [line.split()[1] for line in captured.out.splitlines()] == ["mlp", "mlp-bf16"]
    assert "result: " not in captured.err
    assert captured.err.splitlines()[-1].endswith("r.json: No space left on device; it is in no file")


def test_a_disk_that_is_full_at_ctrl_c_is_still_an_interruption(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The designs are ended in memory only."""
    simulated([*rounds(1), KeyboardInterrupt()])
    fill_the_disk(monkeypatch, after=3)
    assert run(tmp_path / "r.json") == 130
    assert "modelzoo: interrupted; 2 finished runs are in no file\n" in capsys.readouterr().err


def test_a_result_that_cannot_be_written_at_all_is_one_line(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been started then."""
    requested = simulated(rounds(1))
    fill_the_disk(monkeypatch, after=0)
    assert run(tmp_path / "r.json") == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n"), requested) == ("", 1, [])


def test_nothing_is_repeated_under_an_emulator(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one process per setting."""
    emulated = machine_with(emulator="qemu-user")
    monkeypatch.setattr(facts, "read_machine", lambda: emulated)
    untimed = [make(None, workload="mlp", setting=each, group=i) for i, each in enumerate((Setting(), BF16))]
    requested = simulated(untimed)
    run(tmp_path / "r.json", "--processes", "5")
    assert requested[0][1] == Effort(processes=1)


def test_clocks_are_locked_for_gpus_only(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the session runs and not after it; a call without a GPU has no use for it."""
    simulated(rounds(1))
    assert run(tmp_path / "a.json", "--lock-clocks", "1200") == 2
    assert "no setting uses one; add --device cuda" in capsys.readouterr().err
    events: list[object] = []

    @contextmanager
    def locked(mhz: int | None) -> Iterator[None]:
        events.append(mhz)
        yield
        events.append("set back")

    monkeypatch.setattr(sensors, "locked_clocks", locked)
    requested = simulated(rounds(1))
    run(tmp_path / "b.json", "--lock-clocks", "1200", "--device", "cuda")
    assert events == [1200, "set back"]
    assert {request.locked_mhz for request in requested[0][0]} == {1200}


@pytest.mark.parametrize(("options", "includes_judging"), [(("--budget", "60s"), True), ((), False)])
def test_a_budget_that_was_given_is_for_judging_too(
    options: tuple[str, ...],
    includes_judging: bool,
    simulated: Simulate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Predictions are judged first, but for the reference's; the time that it took is not there for the timing.

    The default is for timing.
    """
    requested, now = simulated(rounds(1)), [100.0]
    judged: list[str] = []

    def judge_setting(work: Any, setting: Setting, group: int, *rest: object) -> ValidityEntry:
        assert not requested
        judged.append(setting.precision)
        now[0] += 45.0
        return ValidityEntry(work.name, group, setting, exit_code=0)

    monkeypatch.setattr(session, "judge_setting", judge_setting)
    monkeypatch.setattr(session, "perf_counter", lambda: now[0])
    assert run(tmp_path / "r.json", "--validate", "--artifacts", str(tmp_path), *options) == 0
    assert judged == ["bf16"]
    assert requested[0][-1] == (45.0 if includes_judging else 0.0)
    assert ("judging took 45 s of the budget of 1 min" in capsys.readouterr().err) is includes_judging
    assert len(store.read(tmp_path / "r.json").validity) == 1


def test_an_interruption_while_predictions_are_judged_is_no_traceback(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been timed then, so there is no table."""

    def interrupted(*args: object) -> ValidityEntry:
        raise KeyboardInterrupt

    simulated(rounds(1))
    monkeypatch.setattr(session, "judge_setting", interrupted)
    assert run(tmp_path / "r.json", "--validate", "--artifacts", str(tmp_path)) == 130
    assert f"modelzoo: interrupted; 0 finished runs are in {tmp_path / 'r.json'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((), ("mlp    fp32     baseline", "       bf16", "time: about 2 min,")),
        (("--budget", "5m"), ("as many rounds as ±5.0 % needs", "time: at most 5 min")),
        (("--processes", "3"), ("processes: 3 per setting", "time: not known")),
        (("--validate",), ("accuracy checks, which come first, is not known",)),
    ],
)
def test_a_dry_run_starts_nothing(
    words: tuple[str, ...], lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan is on stdout, no weights are needed, and no result is written."""
    monkeypatch.setattr(schedule, "measure", None)
    monkeypatch.setattr("modelzoo.results.store.write", None)
    command = ["run", str(MLP), "--weights", "pretrained", "--dry-run", *words]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    assert all(line in out for line in (*lines, "Nothing was started.")), out


def test_the_baselines_setting_is_said_once() -> None:
    """Its [TARGET] line has the plain name of the workload; a single setting needs no such line."""
    runs = [make([0.1] * 3, setting=each, group=group) for group, each in enumerate((Setting(), BF16))]
    assert baseline_lines(summary.rows(result_of(*runs))) == ["baseline: fp32 (its line for scripts names no setting)"]
    assert baseline_lines(summary.rows(result_of(runs[0]))) == []


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("tune", "--vary", "mode=eager,script"), ("fp32     ", "fp32 script", "time: about 20 min")),
        (
            ("throughput", "--instances", "1", "--batch", "1,8"),
            ("cores each  threads each  batch", "rounds: 4 of every"),
        ),
        (("throughput",), ("search: the slower half is dropped after each stage", "time: at least ", "cores  CPUs")),
        (("load", "--rate", "10", "--duration", "60s"), ("generator: ", "runs of 1 min or more", "at least 1 min 3 s")),
        (("load", "--rate", "10", "--slo", "p90=1s"), ("runs of 2 min or more", "at least 2 min 3 s")),
        (("load", "--scenario", "offline"), ("decided when it runs: how many requests there are", "at least 13 s")),
        (("load", "--find", "--slo", "p99=50ms"), ("repeats: 3, each with new instances", "about 9 min 9 s if")),
    ],
)
def test_other_dry_runs_start_nothing(
    words: tuple[str, ...], lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan of a search and of instances, made by what makes it for the call itself."""
    monkeypatch.setattr("modelzoo.results.store.write", None)
    monkeypatch.setattr("modelzoo.measure.jobs.prepare", None)
    command, *rest = words
    assert cli.main([command, str(MLP), "--dry-run", *rest]) == 0
    out = capsys.readouterr().out
    assert all(line in out for line in (*lines, "Nothing was started.")), out

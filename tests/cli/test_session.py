"""One session and several of them."""

from __future__ import annotations

import errno
import io
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

import pytest
from example_machine import SERVER, machine_with
from fake_runs import make, result_of
from kept_sessions import beside, kept
from toy_workloads import MLP

from modelzoo import cli
from modelzoo.cli import session
from modelzoo.cli.session import INTERRUPTED, in_turn, repeat, to_judge
from modelzoo.document.console import PlainConsole
from modelzoo.frozen import replace
from modelzoo.machine import facts, sensors
from modelzoo.machine.history import add_to_history, history_path, read_history, reference_name
from modelzoo.measure import reference_load, schedule
from modelzoo.plan import Effort, Sessions
from modelzoo.records.run import Result, Run, Session, ValidityEntry
from modelzoo.records.timing import Design, StopReason
from modelzoo.results import store, summary
from modelzoo.setting import Setting
from modelzoo.stats import Sums
from modelzoo.views.run import baseline_lines

BF16 = Setting("bf16")
Outcome = Union[Run, Design, BaseException]
PLANNED = Design("mlp", 0.05, 600.0, looks=(8, 16), maximum=16)


def rounds(count: int) -> list[Outcome]:
    """Rounds of two settings, the second one half as fast, each followed by the design as it is then."""
    found: list[Outcome] = []
    for number in range(count):
        for group, setting in enumerate((Setting(), BF16)):
            level = 0.1 * (1 + group) * (1 + 0.01 * (number % 3))
            run = make([level] * 5, workload="mlp", setting=setting, group=group, round=number)
            found.append(beside(run, 0.002))
        found.append(PLANNED)
    return found


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Replace the machine, its reference load and all measurements; return what the schedule was asked for."""

    class Load:
        most = 64

        def __init__(self, threads: int) -> None:
            self.threads, self.ran = threads, min(threads, self.most)
            self.is_narrow = threads > self.most

        def __enter__(self) -> Load:
            return self

        def __exit__(self, *args: object) -> None:
            pass

    monkeypatch.setattr(facts, "read_machine", lambda: SERVER)
    monkeypatch.setattr("modelzoo.measure.rounds.Reference", Load)

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


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let ``after`` writes of the result succeed, and no more."""
    writes: list[Path] = []
    write = store.write_atomically

    def full(path: Path, content: Union[str, bytes]) -> None:
        writes.append(path)
        if len(writes) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(store, "write_atomically", full)


def test_a_full_disk_ends_the_session_with_all_that_was_measured(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table comes from memory, the file keeps what fitted, and the exit code is 2."""
    simulated(rounds(8))
    fill_the_disk(monkeypatch, after=11)
    assert run(tmp_path / "r.json") == 2
    captured = capsys.readouterr()
    assert "AMBIGUOUS" in captured.err
    assert "No space left on device" in captured.err
    last = captured.err.splitlines()[-1]
    assert last.startswith("modelzoo: error: cannot write ")
    assert last.endswith("(the table above has all 7 finished runs)")
    assert [line.split()[1] for line in captured.out.splitlines()] == ["mlp", "mlp-bf16"]
    kept_runs = store.read(tmp_path / "r.json").runs
    assert 0 < len(kept_runs) < 7


def test_a_disk_that_is_full_at_ctrl_c_is_still_an_interruption(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The designs are ended in memory only."""
    simulated([*rounds(1), KeyboardInterrupt()])
    fill_the_disk(monkeypatch, after=5)
    assert run(tmp_path / "r.json") == 130
    assert "modelzoo: interrupted; 2 finished runs" in capsys.readouterr().err


def test_a_result_that_cannot_be_written_at_all_is_one_line(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been started then."""
    requested = simulated(rounds(1))
    fill_the_disk(monkeypatch, after=0)
    assert run(tmp_path / "r.json") == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n"), requested) == ("", 1, [])


def test_a_complete_session_is_kept_of_the_machine(simulated: Simulate, tmp_path: Path) -> None:
    """Once per setting; an interrupted one is not."""
    simulated([*rounds(4), KeyboardInterrupt()])
    run(tmp_path / "r.json")
    assert read_history(history_path(SERVER)) == ()
    simulated(rounds(4))
    run(tmp_path / "r.json")
    found = read_history(history_path(SERVER))
    assert [(level.workload, level.label, level.processes) for level in found] == [
        ("mlp", "fp32", 4),
        ("mlp", "bf16=autocast", 4),
    ]
    assert {level.reference_load for level in found} == {reference_name(reference_load.VERSION, 2)}


def test_earlier_sessions_say_how_fast_the_machine_is_and_how_processes_vary(
    simulated: Simulate, tmp_path: Path
) -> None:
    """Its reference speed is stored, and the schedule gets the variances of each workload."""
    load = reference_name(reference_load.VERSION, 2)
    shown = {"reference_load": load, "sums": Sums(4, 3, 0.1, 0.1, 0.05)}
    levels = [kept(day, workload="mlp", reference=day / 1000, **shown) for day in (1, 2, 3)]
    add_to_history([*levels, kept(4, reference=9.0, reference_load="another")], history_path(SERVER))
    requested = simulated(rounds(1))
    run(tmp_path / "r.json")
    result = store.read(tmp_path / "r.json")
    assert (result.latency.reference_seconds, result.latency.reference_load) == (0.002, load)
    assert [(each.workload, each.sessions, each.sums.pairs) for each in result.latency.load_evidence] == [
        ("mlp", 3, 12)
    ]
    priors = requested[0][4]
    assert set(priors) == {"mlp", "toy"}
    assert priors["mlp"].between == pytest.approx(levels[0].between)


def test_nothing_is_kept_under_an_emulator(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one process per setting, and no reference load."""
    emulated = machine_with(emulator="qemu-user")
    monkeypatch.setattr(facts, "read_machine", lambda: emulated)
    untimed = [make(None, workload="mlp", setting=each, group=i) for i, each in enumerate((Setting(), BF16))]
    requested = simulated(untimed)
    run(tmp_path / "r.json", "--processes", "5")
    assert (requested[0][1], requested[0][3]) == (Effort(processes=1), None)
    assert store.read(tmp_path / "r.json").latency.reference_load == ""
    assert read_history(history_path(emulated)) == ()


def test_several_sessions_have_a_result_each_and_a_summary(
    simulated: Simulate, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The results name their series and number."""
    simulated(rounds(4))
    assert run(tmp_path / "r.json", "--sessions", "2") == 0
    sessions = [store.read(tmp_path / f"r-{number}.json").session for number in (1, 2)]
    assert [(each.number, each.count) for each in sessions if each is not None] == [(1, 2), (2, 2)]
    assert capsys.readouterr().err.count("Over 2 sessions") == 1


@pytest.mark.parametrize(("threads", "expected"), [("2", 2), ("1,2,2", 2)])
def test_the_reference_load_has_as_many_threads_as_most_settings(
    threads: str, expected: int, simulated: Simulate, tmp_path: Path
) -> None:
    """Equal settings count each."""
    requested = simulated(rounds(1)[:1])
    values = threads.split(",")
    settings = [part for value in values for part in ("--setting", f"threads={value}")]
    cli.main(["run", str(MLP), "--json", str(tmp_path / "r.json"), *settings])
    assert requested[0][3].threads == expected


def test_half_the_cores_do_not_stand_for_all(
    simulated: Simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where numpy's BLAS has fewer threads than the models, no reference load runs, and the result says why."""
    requested = simulated(rounds(1))
    monkeypatch.setattr("modelzoo.measure.rounds.Reference.most", 1)
    assert run(tmp_path / "r.json", "--threads", "2") == 0
    assert requested[0][3] is None
    latency = store.read(tmp_path / "r.json").latency
    assert (latency.narrow_load, latency.reference_load) == (1, "")


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
    """Predictions are judged first; the time that it took is not there for the timing. The default is for timing."""
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


def test_the_reference_is_not_compared_with_itself() -> None:
    """``--validate`` judges all settings but fp32 in eager mode, and nothing without it."""
    settings = [Setting(), BF16, Setting(mode="compile")]

    assert to_judge(settings, Namespace(validate=True)) == [1, 2]
    assert to_judge(settings, Namespace(validate=False)) == []


class Clock:
    """Seconds that pass only in sessions and while waiting."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds


def begins(requested: Sessions, lengths: list[float]) -> tuple[list[float], str]:
    """When sessions of these lengths begin, and what is printed."""
    clock, file, found = Clock(), io.StringIO(), []
    for one, length in zip(in_turn(requested, PlainConsole(file=file), clock, clock.sleep), lengths):
        assert (one.number, one.count) == (len(found) + 1, requested.count)
        found.append(clock.now - 1000)
        clock.sleep(length)
    return found, file.getvalue()


def test_sessions_begin_at_the_given_distance() -> None:
    """From beginning to beginning, however long each takes; the wait is announced."""
    found, printed = begins(Sessions(3, 600.0), [100.0, 599.0, 50.0])
    assert found == [0, 600, 1200]
    assert printed.splitlines() == [
        "session 1 of 3",
        "",
        "session 2 of 3 begins in 8 min 20 s",
        "",
        "session 3 of 3 begins in 1 s",
    ]


def test_a_session_that_took_longer_is_followed_at_once() -> None:
    """And the one after that begins at the full distance again."""
    found, printed = begins(Sessions(3, 600.0), [700.0, 100.0, 0.0])
    assert found == [0, 700, 1300]
    assert "session 2 of 3\n" in printed


def test_without_a_distance_sessions_follow_each_other() -> None:
    """``--sessions 2`` alone."""
    assert begins(Sessions(2), [5.0, 5.0])[0] == [0, 5]


def test_a_single_session_is_not_announced() -> None:
    """It is what every call is."""
    assert begins(Sessions(), [5.0]) == ([0], "")


def test_sessions_of_a_call_belong_together() -> None:
    """They share the name of their series."""
    clock = Clock()
    sessions = in_turn(Sessions(3), PlainConsole(file=io.StringIO()), clock, clock.sleep)
    assert len({session.series for session in sessions}) == 1


def outcome(
    call: Callable[[Session], tuple[int, Result | None]], count: int, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The exit code of ``count`` sessions, what is printed to the console, and stderr."""
    file = io.StringIO()
    code = repeat(Sessions(count), call, PlainConsole(file=file, width=160))
    return code, file.getvalue(), capsys.readouterr().err


def complete(session: Session) -> tuple[int, Result]:
    """A session that is as slow as its number."""
    return 0, result_of(*(make([0.1 * session.number] * 3, round=number) for number in range(3)))


def test_complete_sessions_are_summarized(capsys: pytest.CaptureFixture[str]) -> None:
    """After the last one, once."""
    code, printed, _ = outcome(complete, 3, capsys)
    assert code == 0
    assert printed.count("Over 3 sessions") == 1


def test_a_single_session_has_no_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Its table says it all."""
    assert outcome(complete, 1, capsys) == (0, "", "")


def test_the_largest_exit_code_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """A session that failed does not stop the next, and is not summarized."""
    code, printed, _ = outcome(lambda each: (1, None) if each.number == 2 else complete(each), 3, capsys)
    assert code == 1
    assert "Over 2 sessions" in printed


def test_control_c_in_a_session_ends_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """What was complete is summarized; the session has said that it was interrupted."""
    code, printed, err = outcome(lambda each: (INTERRUPTED, None) if each.number == 3 else complete(each), 5, capsys)
    assert (code, err) == (130, "")
    assert "Over 2 sessions" in printed


def test_control_c_between_sessions_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how many there are; they are summarized as if no more had been asked for."""

    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    file = io.StringIO()
    assert repeat(Sessions(5, 60.0), complete, PlainConsole(file=file, width=160), lambda: 0.0, sleep) == 130
    assert capsys.readouterr().err == "modelzoo: interrupted; the results of 2 of 5 sessions are stored\n"
    assert "Over 2 sessions" in file.getvalue()


def test_control_c_before_the_first_result_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to speak of."""

    def call(session: Session) -> tuple[int, Result]:
        raise KeyboardInterrupt

    assert outcome(call, 1, capsys) == (130, "", "modelzoo: interrupted\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((), ("mlp    fp32     baseline", "       bf16", "time: about 2 min,")),
        (("--budget", "5m"), ("as many rounds as ±5.0 % needs", "time: at most 5 min")),
        (("--processes", "3", "--sessions", "2"), ("processes: 3 per setting", "time: not known", "sessions: 2")),
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

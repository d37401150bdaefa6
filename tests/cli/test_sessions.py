"""Sessions: when they begin, on a clock that no test waits for, and what is said after the last one."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from fake_runs import make, result_of
from rich.console import Console

from modelzoo.cli.session import INTERRUPTED, in_turn, repeat
from modelzoo.plan import Sessions
from modelzoo.records.run import Result
from modelzoo.records.session import Session


class Clock:
    """Seconds that pass only in sessions and while waiting."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds


def begins(asked: Sessions, lengths: list[float]) -> tuple[list[float], str]:
    """When sessions of these lengths begin, and what is printed."""
    clock, file, found = Clock(), io.StringIO(), []
    for session, length in zip(in_turn(asked, Console(file=file), clock, clock.sleep), lengths):
        assert (session.number, session.count) == (len(found) + 1, asked.count)
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
    sessions = in_turn(Sessions(3), Console(file=io.StringIO()), clock, clock.sleep)
    assert len({session.series for session in sessions}) == 1


def outcome(
    call: Callable[[Session], tuple[int, Result | None]], count: int, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    """The exit code of ``count`` sessions, what is printed to the console, and stderr."""
    file = io.StringIO()
    code = repeat(Sessions(count), call, Console(file=file, width=160))
    return code, file.getvalue(), capsys.readouterr().err


def complete(session: Session) -> tuple[int, Result]:
    """A session that is as slow as its number."""
    return 0, result_of(*(make([0.1 * session.number] * 3, round=number) for number in range(3)))


def test_complete_sessions_are_summarised(capsys: pytest.CaptureFixture[str]) -> None:
    """After the last one, once."""
    code, printed, _ = outcome(complete, 3, capsys)
    assert code == 0
    assert printed.count("Over 3 sessions") == 1


def test_a_single_session_has_no_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """Its table says it all."""
    assert outcome(complete, 1, capsys) == (0, "", "")


def test_the_largest_exit_code_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """A session that failed does not stop the next, and is not summarised."""
    code, printed, _ = outcome(lambda each: (1, None) if each.number == 2 else complete(each), 3, capsys)
    assert code == 1
    assert "Over 2 sessions" in printed


def test_control_c_in_a_session_ends_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """What was complete is summarised; the session has said that it was interrupted."""
    code, printed, err = outcome(lambda each: (INTERRUPTED, None) if each.number == 3 else complete(each), 5, capsys)
    assert (code, err) == (130, "")
    assert "Over 2 sessions" in printed


def test_control_c_between_sessions_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says how many there are; they are summarised as if no more had been asked for."""

    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    file = io.StringIO()
    assert repeat(Sessions(5, 60.0), complete, Console(file=file, width=160), lambda: 0.0, sleep) == 130
    assert capsys.readouterr().err == "modelzoo: interrupted; the results of 2 of 5 sessions are stored\n"
    assert "Over 2 sessions" in file.getvalue()


def test_control_c_before_the_first_result_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to speak of."""

    def call(session: Session) -> tuple[int, Result]:
        raise KeyboardInterrupt

    assert outcome(call, 1, capsys) == (130, "", "modelzoo: interrupted\n")

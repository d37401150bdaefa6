"""Repeat a whole call as sessions, some time apart."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Callable, Optional

from modelzoo.formatting import duration
from modelzoo.plan import Sessions
from modelzoo.records.run import now
from modelzoo.records.session import Session

if TYPE_CHECKING:
    from rich.console import Console

    from modelzoo.records.run import Result

INTERRUPTED = 130
"""Exit code after Ctrl-C, 128 + SIGINT, as shells have it."""

Call = Callable[[Session], tuple[int, "Optional[Result]"]]
"""Runs one session; returns its exit code, and its result if the session is complete."""


def repeat(
    asked: Sessions,
    call: Call,
    out: Console,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run ``call`` in every session, and say what the complete sessions show together.

    Ctrl-C ends the call, in a session or between two of them; what has been stored stays.

    Args:
        asked: how many sessions, and how far apart.
        call: runs one of them.
        out: where people are told about them.
        clock: seconds.
        sleep: waits for a number of seconds.

    Returns:
        the largest of the sessions' exit codes, which after Ctrl-C is 130.
    """
    codes: list[int] = []
    complete: list[Result] = []
    try:
        for session in in_turn(asked, out, clock, sleep):
            code, result = call(session)
            codes.append(code)
            if result is not None:
                complete.append(result)
            if code == INTERRUPTED:
                break
    except KeyboardInterrupt:
        stored = f"; the results of {len(codes)} of {asked.count} sessions are stored" if codes else ""
        print(f"modelzoo: interrupted{stored}", file=sys.stderr)
        codes.append(INTERRUPTED)
    if len(complete) > 1:
        from modelzoo.document import terminal
        from modelzoo.results.sessions import over_sessions
        from modelzoo.views.sessions import document

        out.print()
        terminal.show(document(over_sessions(complete)), out)
    return max(codes)


def in_turn(
    asked: Sessions, out: Console, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[Session]:
    """Yield each session ``asked.every`` seconds after the one before began, or at once if that has passed.

    Args: as for ``repeat``.
    """
    series, due = now(), clock()
    for number in range(1, asked.count + 1):
        name, wait = f"session {number} of {asked.count}", due - clock()
        if wait > 0:
            out.print(f"\n{name} begins in {duration(wait)}", soft_wrap=True)
            sleep(wait)
        elif asked.count > 1:
            out.print(f"\n{name}" if number > 1 else name)
        due = clock() + asked.every
        yield Session(series, number, asked.count)

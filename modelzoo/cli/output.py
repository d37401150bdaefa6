"""Where a command's output goes: lines on stdout, and the result's file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.cli.selection import Jobs
from modelzoo.errors import UsageError
from modelzoo.workload.discovery import CHECKOUT, is_checkout

if TYPE_CHECKING:
    from modelzoo.records.run import Result
    from modelzoo.results.summary import SummaryRow


def print_lines(lines: Iterable[str]) -> None:
    """Print to stdout, after everything that went to stderr.

    Raises:
        UsageError: stdout cannot be written to (the disk is full).
    """
    sys.stderr.flush()
    try:
        for line in lines:
            print(line, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UsageError(f"cannot write to stdout: {error.strerror}") from error


def result_path(named: str | None, created: str) -> Path:
    """Return ``named``, or a new file called after the time of the call.

    It is in MODELZOO_RESULTS, or else in ``results`` of the checkout or, if there is none, of the current directory.
    """
    if named:
        return Path(named)
    parent = CHECKOUT if is_checkout() else Path.cwd()
    directory = Path(os.environ.get("MODELZOO_RESULTS") or parent / "results")
    stem = created.replace(":", "").replace("+0000", "Z")
    candidates = (f"{stem}{'' if i == 0 else f'-{i}'}.json" for i in range(1000))
    return next(directory / name for name in candidates if not (directory / name).exists())


def new_result(jobs: Jobs) -> Result:
    """Return the empty result of a call that runs ``jobs``."""
    from modelzoo.machine.revision import suite_revision
    from modelzoo.records.run import Asked, Result, now

    asked = tuple(Asked(work.name, setting) for work, settings in jobs for setting in settings)
    return Result(command=tuple(sys.argv), created=now(), asked=asked, commit=suite_revision(CHECKOUT))


def result_lines(result: Result, rows: Sequence[SummaryRow]) -> list[str]:
    """The lines for stdout: ``[VALID]`` for each judgement, then ``[TARGET]`` for each row that was timed."""
    from modelzoo.report.validity import valid_line
    from modelzoo.results import summary

    judged = [entry.report.validity for entry in result.validity if entry.report is not None]
    return [*map(valid_line, judged), *summary.target_lines(rows)]

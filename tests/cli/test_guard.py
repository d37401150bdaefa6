"""What the command line does with an installation that lacks a package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_runs import make, result_of
from places import ROOT

from modelzoo.cli import app as cli
from modelzoo.cli.run import exit_code
from modelzoo.errors import WorkerError
from modelzoo.frozen import replace
from modelzoo.records.run import ValidityEntry
from modelzoo.results import summary

DEFECT = r"Traceback.*\nmodelzoo: error: this is a defect of modelzoo; please report it with the lines above\n"


@pytest.mark.parametrize(
    ("error", "printed"),
    [
        (WorkerError("it died"), "modelzoo: error: it died\n"),
        (ModuleNotFoundError("No module named 'rich'", name="rich"), r".* 'rich'[^\n]*\./scripts/run[^\n]*\n"),
        (ModuleNotFoundError("No module named 'modelzoo.x'", name="modelzoo.x"), DEFECT),
        (KeyError("x"), DEFECT),
        (OSError(5, "x"), DEFECT),
    ],
)
def test_every_error_ends_with_2(error: Exception, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    """1 means NOT VALID, which no defect is. A module of the suite is no package that is missing."""

    def do() -> int:
        raise error

    assert cli.guard(do) == 2
    assert re.fullmatch(printed, capsys.readouterr().err, re.DOTALL)


ENDED = """
import os, signal, sys, time
from modelzoo.cli.app import guard

number, before = signal.Signals[sys.argv[1]], signal.Handlers[sys.argv[2]]
signal.signal(number, before)

def do():
    os.kill(os.getpid(), number)
    time.sleep(0.1)
    return 0

print(guard(do), signal.getsignal(number).name)
"""


@pytest.mark.parametrize(
    ("number", "before", "printed"),
    [
        ("SIGTERM", "SIG_DFL", "130 SIG_DFL\n"),
        ("SIGHUP", "SIG_DFL", "130 SIG_IGN\n"),
        ("SIGHUP", "SIG_IGN", "0 SIG_IGN\n"),
    ],
)
def test_a_request_to_end_is_handled_like_ctrl_c(number: str, before: str, printed: str) -> None:
    """So that what was started is ended too; not if it is ignored, as under nohup. In a process of its own."""
    command = [sys.executable, "-c", ENDED, number, before]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == printed
    assert done.stderr == ("modelzoo: interrupted\n" if printed.startswith("130") else "")


def test_output_never_fails_for_want_of_a_character_or_of_room() -> None:
    """A workload's name may have any character, and a log's disk may be full; a traceback would hide the verdict."""
    call = "print('bär → ok', file=sys.std%s) or 0"
    said = f"from modelzoo.cli.app import guard; import sys; sys.exit(guard(lambda: {call}))"
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
    for stream in ("out", "err"):
        command = [sys.executable, "-c", said % stream]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=ROOT, check=True)
        assert done.stdout + done.stderr == rb"b\xe4r \u2192 ok" + b"\n"
    with Path("/dev/full").open("w") as full:
        subprocess.run([sys.executable, "-c", said % "err"], stderr=full, cwd=ROOT, timeout=60, check=True)


@pytest.mark.parametrize(
    ("error_kind", "judged", "strict", "code"),
    [
        (None, 0, False, 0),
        (None, 0, True, 1),
        (None, 1, False, 1),
        (None, 2, True, 2),
        ("WorkerError", 1, True, 2),
        ("UsageError", 0, False, 2),
    ],
)
def test_the_exit_code_of_a_session(error_kind: str | None, judged: int, strict: bool, code: int) -> None:
    """1 is NOT VALID or ``--strict``, here with kernels that were not audited; a process that failed is 2."""
    run = make([0.1] * 5)
    rows = summary.rows(result_of(run))
    failed = replace(run, error=error_kind, error_kind=error_kind)
    result = result_of(failed).plus(ValidityEntry(run.workload, 0, run.requested, exit_code=judged))
    assert exit_code(result, rows, strict) == code

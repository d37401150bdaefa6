"""What the command line does with an installation that lacks a package."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import ROOT

from modelzoo.cli import app as cli


def test_missing_package_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A Python without the suite's packages is told which one is missing and what to do, exit code 2."""

    def do() -> int:
        raise ModuleNotFoundError("No module named 'rich'", name="rich")

    assert cli.guard(do) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "'rich'" in error
    assert "./scripts/run" in error


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


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_never_fails_for_want_of_a_character(stream: str) -> None:
    """A workload's or a file's name may have any, whatever the locale; a traceback would hide the verdict."""
    said = (
        f"from modelzoo.cli.app import guard; import sys; guard(lambda: print('[VALID] bär → ok', file=sys.{stream}))"
    )
    environment = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run(
        [sys.executable, "-c", said], capture_output=True, env=environment, cwd=ROOT, timeout=60, check=True
    )
    assert getattr(done, stream) == rb"[VALID] b\xe4r \u2192 ok" + b"\n"


def test_own_missing_module_is_a_bug() -> None:
    """A module of the suite itself that is missing is not blamed on the user."""

    def do() -> int:
        raise ModuleNotFoundError("No module named 'modelzoo.nothing'", name="modelzoo.nothing")

    with pytest.raises(ModuleNotFoundError):
        cli.guard(do)

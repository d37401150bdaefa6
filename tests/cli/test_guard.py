"""What the command line does with an installation that lacks a package."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
import os, signal, time
from modelzoo.cli.app import guard

def do():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    return 0

print(guard(do), signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
"""


def test_a_request_to_end_is_handled_like_ctrl_c() -> None:
    """So that what was started is ended too; afterwards the signal is what it was before. In a process of its own."""
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "130 True\n"
    assert done.stderr == "modelzoo: interrupted\n"


def test_own_missing_module_is_a_bug() -> None:
    """A module of the suite itself that is missing is not blamed on the user."""

    def do() -> int:
        raise ModuleNotFoundError("No module named 'modelzoo.nothing'", name="modelzoo.nothing")

    with pytest.raises(ModuleNotFoundError):
        cli.guard(do)

"""Another interpreter: what makes it unusable is said in one line, and it imports this suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from modelzoo.errors import UsageError
from modelzoo.measure.launcher import REQUIRED, find_interpreter, suite_path
from modelzoo.workload.discovery import CHECKOUT


def program(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def answering(path: Path, version: str, modules: str, suite: str = "null") -> Path:
    """A program that answers as an interpreter would."""
    return program(path, f"echo '[{version}, {modules}, {suite}]'")


ALL = "[" + ", ".join(f'"{name}"' for name in REQUIRED) + "]"


def test_a_link_to_an_interpreter_stays_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment's python is a link; a name without a directory is looked up in PATH."""
    link = tmp_path / "env" / "bin" / "python-of-env"
    program(link, f'exec {sys.executable} "$@"')
    monkeypatch.chdir(tmp_path)
    assert find_interpreter("env/bin/python-of-env") == str(link)
    monkeypatch.setenv("PATH", str(link.parent), prepend=os.pathsep)
    assert find_interpreter("python-of-env") == str(link)


def test_what_cannot_run_workers_is_refused_in_one_line(tmp_path: Path) -> None:
    """Nothing there, a directory, another program, one that cannot be run, an old Python, missing packages."""
    old, bare = answering(tmp_path / "old", "[3, 9]", ALL), answering(tmp_path / "bare", "[3, 12]", '["numpy"]')
    text = tmp_path / "text"
    text.write_text("no program")
    for path, problem in [
        (tmp_path / "none", "does not exist; name an environment such as envs/torch-2.9.1/bin/python, which"),
        (tmp_path, f"is a directory; name the interpreter in it, for example {tmp_path}/bin/python"),
        (program(tmp_path / "other", "echo hello"), "is not a Python interpreter; name an environment"),
        (program(tmp_path / "odd", "echo 7"), "is not a Python interpreter; name an environment"),
        (program(tmp_path / "odder", "echo '[[3], [], 4]'"), "is not a Python interpreter; name an environment"),
        (text, "cannot be run as an interpreter: Permission denied; name an environment"),
        (old, "is Python 3.9; the suite needs 3.10 or newer"),
        (
            bare,
            "lacks torch, msgspec, psutil, safetensors, platformdirs, threadpoolctl, packaging; name an environment",
        ),
    ]:
        with pytest.raises(UsageError) as caught:
            find_interpreter(str(path))
        assert str(caught.value).startswith(f"python={path} {problem}")
        assert "\n" not in str(caught.value)


def test_another_interpreter_is_shown_this_suite_unless_it_finds_it_by_itself(tmp_path: Path) -> None:
    """The variable comes before what the user has set."""
    own = CHECKOUT / "modelzoo" / "__init__.py"
    there, elsewhere, none = (
        answering(tmp_path / "there", "[3, 12]", ALL, f'"{own}"'),
        answering(tmp_path / "elsewhere", "[3, 12]", ALL, '"/site-packages/modelzoo/__init__.py"'),
        answering(tmp_path / "none", "[3, 12]", ALL),
    )
    assert suite_path(str(there), {}) == {}
    assert suite_path(str(elsewhere), {}) == suite_path(str(none), {}) == {"PYTHONPATH": str(CHECKOUT)}
    assert suite_path(str(none), {"PYTHONPATH": "/mine"}) == {"PYTHONPATH": f"{CHECKOUT}:/mine"}

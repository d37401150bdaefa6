"""Importing Jittor, here a module that does to the process what Jittor does."""

from __future__ import annotations

import os
import platform
import signal
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelzoo.engines.jittor import environment
from modelzoo.engines.jittor.environment import import_jittor, reason_of
from modelzoo.errors import EnvironmentProblem

JITTOR = """
import os, platform, signal, ssl
signal.signal(signal.SIGCHLD, lambda *about: None)
home, node = os.environ["HOME"], platform.node()
ssl._create_default_https_context = ssl._create_unverified_context

class flags:
    python_path = "/usr/bin/env python3"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a package called jittor."""
    monkeypatch.setenv(environment.HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(environment, "link_onednn", lambda home: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "jittor-python").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "jittor" / "__init__.py"
    file.parent.mkdir()
    yield file
    sys.modules.pop("jittor", None)


def test_what_the_import_changes_is_undone(package: Path) -> None:
    """Certificates are verified and signals handled as before; the cache depends on neither user nor host name."""
    verified, home, node = ssl._create_default_https_context, os.environ.get("HOME"), platform.node
    package.write_text(JITTOR)
    jittor = import_jittor()
    assert (jittor.home, jittor.node) == (os.environ[environment.HOME_VARIABLE], "")
    assert ssl._create_default_https_context is verified
    assert (os.environ.get("HOME"), platform.node) == (home, node)
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def test_kernels_are_compiled_with_the_home_of_jittor(package: Path) -> None:
    """Otherwise many processes would write one file in the user's home at once."""
    package.write_text(JITTOR)
    assert import_jittor().flags.python_path == f"{sys.prefix}/bin/jittor-python"
    Path(f"{sys.prefix}/bin/jittor-python").unlink()
    with pytest.raises(EnvironmentProblem, match="bin/jittor-python does not exist: run scripts/setup-jittor again"):
        import_jittor()


def test_an_import_that_fails_is_one_line(package: Path) -> None:
    """The last line of the compiler's error; what the import changed is undone here too."""
    verified = ssl._create_default_https_context
    package.write_text(JITTOR + "raise RuntimeError('g++ failed\\nno such file: dnnl.hpp')")
    with pytest.raises(EnvironmentProblem) as caught:
        import_jittor()
    reason = "no such file: dnnl.hpp"
    assert str(caught.value) == f"Jittor cannot be imported ({reason}): run scripts/setup-jittor again"
    assert ssl._create_default_https_context is verified


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("", "RuntimeError"),
        ("first\nsecond\n", "second"),
        (
            "\x1b[38;5;1m[f 1122 16:26:47.848523 12 executor.cc:686] \nExecute fused operator failed.\n[OP TYPE]: "
            "mkl_conv\n[Async Backtrace]: not found\n[Reason]: [f 1122 16:26:47.848523 aa mkl.cc:12] Check failed\n"
            "more of it\x1b[m\n**********\nAsync error was detected.\n>>> export trace_py_var=3\n",
            "Check failed",
        ),
    ],
)
def test_the_reason_of_an_error_is_one_line(message: str, reason: str) -> None:
    """Without colours, times, and the advice that follows it."""
    assert reason_of(RuntimeError(message)) == reason

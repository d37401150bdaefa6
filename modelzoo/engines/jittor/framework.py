"""Import Jittor, with what its import changes in the process undone as far as it can be.

Only for processes of Jittor's own environment, started with ``environment.variables``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelzoo.engines.jittor import environment
from modelzoo.errors import EnvironmentProblem

_LOG_LENGTH = 200
_DECORATION = re.compile(r"\x1b\[[0-9;]*m|\[[a-z] \d{4} [\d:.]+ +\w+ [\w.]+:\d+\]")
"""Colours, and the beginning of a line of its log, such as ``[f 1122 16:26:47.848523 12 executor.cc:686]``."""
_REASON = re.compile(r"\[?\bReason\]?:")
_ADVICE = "\n**********\n"
_SIGNALS = [signal.Signals[f"SIG{name}"] for name in ["BUS", "CHLD", "FPE", "ILL", "INT", "QUIT", "SEGV"]]
"""The signals that Jittor handles."""


def import_jittor() -> Any:
    """Import Jittor; the first time on a machine, this compiles it, which takes minutes.

    Raises:
        EnvironmentProblem: it cannot be imported or compiled, or its environment is incomplete.
    """
    home = Path(os.environ[environment.HOME_VARIABLE])
    # The Python to which Jittor passes every kernel that it compiles, with Jittor's home as its home: each of these
    # processes may write a file there, and fails if it reads one that is half written.
    python = Path(sys.prefix) / "bin" / "jittor-python"
    if not python.exists():
        raise EnvironmentProblem(f"{python} does not exist: run {environment.how_to_install()} again")
    environment.link_onednn(home)
    with _contained(home):
        try:
            import jittor
        except Exception as error:  # a failed compiler call raises errors of many types
            problem = f"Jittor cannot be imported ({reason_of(error)}): run {environment.how_to_install()} again"
            raise EnvironmentProblem(problem) from error
    # One word, because Jittor takes the others for files that it compiles.
    jittor.flags.python_path = str(python)
    return jittor


def reason_of(error: Exception) -> str:
    """Return the line that gives the reason, of an error of Jittor, which has many: context, reason and advice."""
    text = _DECORATION.sub("", str(error)).partition(_ADVICE)[0]
    _, *reasons = _REASON.split(text)
    lines = [line.strip() for line in (reasons[-1] if reasons else text).splitlines() if line.strip()]
    return (lines[0 if reasons else -1] if lines else type(error).__name__)[:_LOG_LENGTH]


@contextmanager
def _contained(home: Path) -> Iterator[None]:
    """Undo what the import of Jittor changes in this process, and keep it from the user's own files.

    Jittor writes the place of its cache to a file in the home directory, which the user's own Jittor would read; it
    names its cache after the host, which has another name in every container; it turns the verification of TLS
    certificates off; and it ends the process as soon as a child of it is stopped, which happens between turns.
    """
    verified, node, user_home = ssl._create_default_https_context, platform.node, os.environ.get("HOME")
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    os.environ["HOME"] = str(home)
    platform.node = lambda: ""
    try:
        yield
    finally:
        ssl._create_default_https_context = verified
        platform.node = node
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if user_home is None:
            del os.environ["HOME"]
        else:
            os.environ["HOME"] = user_home


def onednn() -> ctypes.CDLL:
    """The oneDNN that Jittor's operators are linked to."""
    return ctypes.CDLL(environment.LIBRARY)


class _Version(ctypes.Structure):
    """``dnnl_version_t`` of oneDNN 2.x, as far as it is read."""

    _fields_ = (("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int))


def onednn_version() -> str:
    """The version of that oneDNN."""
    function = onednn().dnnl_version
    function.restype = ctypes.POINTER(_Version)
    found = function().contents
    return f"{found.major}.{found.minor}.{found.patch}"

"""Calls of ``modelzoo`` in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import NamedTuple

from modelzoo.cli import app


class Call(NamedTuple):
    """How a call ended: its exit code, and what it wrote to stdout and to stderr."""

    code: int
    out: str
    err: str


def called(*words: object, entry: Callable[[list[str]], int | None] = app.main) -> Call:
    """``modelzoo`` with these words, or another entry point, to its end."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = entry([str(each) for each in words]) or 0
        except SystemExit as ended:  # argparse
            code = int(ended.code or 0)
    return Call(code, out.getvalue(), err.getvalue())

"""Processes that tests start, await and end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from places import ROOT

from modelzoo.measure.worker import subject_of
from modelzoo.records.protocol import Job, Send

SECONDS = 240
"""An upper limit for what would otherwise be waited for for ever."""


def until(condition: Callable[[], Any]) -> Any:
    """Wait until a condition gives something, and return that."""
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def call(*words: object, path: Path = ROOT) -> subprocess.Popen[str]:
    """Start ``modelzoo WORDS``, with the package in ``path``."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "modelzoo", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=path)


def processes_with(text: str) -> list[psutil.Process]:
    """The processes whose command line contains ``text``."""
    return [each for each in psutil.process_iter(["cmdline"]) if text in " ".join(each.info["cmdline"] or ())]


@contextmanager
def in_this_process(launcher: object, job: Job, variables: object, send: Send, timeout: object) -> Iterator[Any]:
    """What stands for ``Remote``: a worker whose methods are called here."""
    subject = subject_of(job, send)

    def call(name: str, *arguments: object, result: object, last: bool = False) -> object:
        return getattr(subject, name)(*arguments)

    yield SimpleNamespace(call=call)

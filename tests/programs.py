"""Programs and processes that tests call, make up, await and end: the suite, a Dask cluster, small wheels."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from places import ROOT

from modelzoo.measure.worker import subject_of
from modelzoo.records.protocol import Job, Send

SECONDS = 900
"""An upper limit for what would otherwise be waited for for ever."""


def ran(
    *command: object, cwd: Path | None = None, environ: Mapping[str, str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Call a program, with these variables besides those of ``environ``, by default of this process."""
    words, own = list(map(str, command)), {**(os.environ if environ is None else environ), **variables}
    return subprocess.run(words, cwd=cwd, env=own, capture_output=True, text=True, timeout=SECONDS, check=False)


def program(path: Path, text: str) -> None:
    """Write a script that can be called."""
    path.write_text(text)
    path.chmod(0o755)


def wheel(folder: Path, name: str, version: str, tag: str, requires: str = "") -> Path:
    """Write a wheel of one module that contains its own version and tag."""
    file = folder / f"{name}-{version}-{tag}.whl"
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", f"SEEN = {(version, tag)!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return file


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


class DaskCluster:
    """Leaving ``started`` ends all of it. Workers have no nanny, so that one that is killed stays away."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.port = int(listening.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def ensure(self) -> None:
        """Start the scheduler, and the workers ``w0``, ``w1`` and ``w2``, unless they run."""
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        self._start("scheduler", ["distributed.cli.dask_scheduler", *options], {})
        names = ("w0", "w1", "w2")
        for name in names:
            self.worker(name)
        self.await_workers(*names)

    def worker(self, name: str, **variables: str) -> None:
        """Start one worker, with these variables, unless it runs."""
        options = ["--nworkers", "1", "--nthreads", "1", "--resources", "host=1", "--no-dashboard", "--no-nanny"]
        options += ["--name", name, "--local-directory", str(self.folder / "scratch"), "--death-timeout", str(SECONDS)]
        self._start(name, ["distributed.cli.dask_worker", self.address, *options], variables)

    def await_workers(self, *names: str) -> None:
        until(lambda: all("Registered to" in (self.folder / f"{name}.txt").read_text() for name in names))

    def kill(self, *names: str) -> None:
        """End processes by SIGKILL."""
        for name in names:
            self._processes[name].send_signal(signal.SIGKILL)
            self._processes.pop(name).wait(SECONDS)

    def kill_all(self) -> None:
        self.kill(*self._processes)

    def _start(self, name: str, words: list[str], variables: Mapping[str, str]) -> None:
        if name in self._processes and self._processes[name].poll() is None:
            return
        with (self.folder / f"{name}.txt").open("wb") as log:
            environ = {**os.environ, **variables, "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s"}
            command = [sys.executable, "-m", *words]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=environ)


@contextmanager
def started(folder: Path) -> Iterator[DaskCluster]:
    """Yield a cluster that has not been started yet."""
    cluster = DaskCluster(folder)
    try:
        yield cluster
    finally:
        cluster.kill_all()

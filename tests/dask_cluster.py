"""A Dask scheduler and workers on loopback, as a user starts them, each a process that a test may kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from processes import SECONDS, until


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

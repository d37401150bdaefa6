"""What a cluster is refused for, which one is open to whoever can reach it, and that a Dask worker leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from programs import processes_with, until
from toy_workloads import NUMPY_ENGINE, odd_numpy

from modelzoo.errors import EnvironmentProblem
from modelzoo.fleet.cluster import Cluster, Host, _use_own_environment, about, is_open
from modelzoo.frozen import replace

HERE = {"packages": {"python": "3.11.7.final.0", "dask": "2026.8.0", "distributed": "2026.8.0"}}
WORKER = {"name": "w0", "nthreads": 1, "resources": {"host": 1}}


class FakeClient:
    """Two workers, of which the second one differs."""

    def __init__(self, worker: object = WORKER, versions: object = HERE, host: object = None) -> None:
        self._worker, self._versions, self._host = worker, versions, host or about()

    def wait_for_workers(self, count: int, timeout: float) -> None:
        pass

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        return {"workers": {"a": WORKER, "b": self._worker}}

    def get_versions(self) -> dict[str, Any]:
        return {"client": HERE, "workers": {"a": HERE, "b": self._versions}}

    def run(self, function: object, **options: object) -> dict[str, Any]:
        return {"a": replace(about(), name="zoo0"), "b": self._host}


def other(**packages: str) -> dict[str, Any]:
    """Other versions."""
    return {"packages": {**HERE["packages"], **packages}}


@pytest.mark.parametrize(
    ("differs", "problem"),
    [
        ({"versions": other(python="3.12.1.final.0")}, "the Dask worker w0 has Python: 3.12 instead of 3.11"),
        ({"versions": other(distributed="2025.1.0")}, "has distributed: 2025.1.0 instead of 2026.8.0"),
        ({"worker": {**WORKER, "nthreads": 8}}, "was not started with 'dask worker tcp://here:1 --nworkers 1 --nthr"),
        ({"worker": {**WORKER, "resources": {}}}, "was not started with 'dask worker tcp://here:1 "),
        ({"host": ModuleNotFoundError("No module named 'modelzoo'")}, "w0 cannot import modelzoo: No module named"),
        ({"host": Host("zoo1", {"modelzoo": "9"}, is_slow=False)}, "host zoo1 has modelzoo: 9 instead of "),
    ],
)
def test_a_worker_that_differs_is_named(differs: dict[str, Any], problem: str) -> None:
    """In one line, before it is given anything to do."""
    with pytest.raises(EnvironmentProblem) as caught:
        Cluster(FakeClient(**differs), "tcp://here:1", "")
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_hosts_are_called_by_their_names() -> None:
    """With the name of the Dask worker if several are on one host; those that wake up often are known."""
    cluster = Cluster(FakeClient(host=Host("zoo1", about().facts, is_slow=True)), "tcp://here:1", "")
    assert [member.name for member in cluster.members] == ["zoo0", "zoo1"]
    assert "zoo1" in [each.name for each in cluster.members if each.is_slow]
    cluster = Cluster(FakeClient(host=replace(about(), name="zoo0")), "tcp://here:1", "")
    assert [member.name for member in cluster.members] == ["zoo0 (w0)", "zoo0 (w0)"]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("tcp://127.0.0.1:8786", False),
        ("localhost:8786", False),
        ("tcp://[::1]:8786", False),
        ("tls://10.0.0.1:8786", False),
        ("tcp://10.0.0.1:8786", True),
        ("zoo0:8786", True),
    ],
)
def test_whoever_reaches_an_open_cluster_can_use_it(address: str, found: bool) -> None:
    """Unless it is on loopback, or has TLS."""
    assert is_open(address) == found


def test_what_the_nanny_sets_does_not_reach_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It limits threads and tunes the allocator; a value of the user's own stays."""
    for name, value in (("MALLOC_TRIM_THRESHOLD_", "65536"), ("OMP_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "4")):
        monkeypatch.setenv(name, value)
    about()
    _use_own_environment()
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ
    assert "OMP_NUM_THREADS" not in os.environ
    assert os.environ["MKL_NUM_THREADS"] == "4"


KILLED = """
import os, signal, sys
from modelzoo.fleet import cluster
from modelzoo.measure.guardian import GUARDIAN
GUARDIAN.guard = lambda kind, name: os.kill(os.getpid(), signal.SIGKILL)
cluster.measure("call", tuple(sys.argv[1:]), os.getcwd())
"""


def test_a_command_ends_with_a_worker_that_is_killed_before_its_guardian_knows(
    tmp_path: Path, numpy_engine: None
) -> None:
    """Nobody else would end it, for as long as it measures."""
    pytest.importorskip("dask")
    work = odd_numpy(tmp_path / "odd", build="import time; time.sleep(600)")
    words = ["run", str(work.directory), "--engine", NUMPY_ENGINE, "--weights", str(work.directory / "weights.npz")]
    done = subprocess.run([sys.executable, "-c", KILLED, *words, "--precision", "fp32"], check=False)
    assert done.returncode == -9
    until(lambda: not processes_with(str(work.directory)))

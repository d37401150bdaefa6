"""Where workers run, and how they are started, suspended and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from toy_workloads import RANDOM, SHORT, mlp, numpy_setting, odd_numpy, runs_of

from modelzoo.errors import EnvironmentProblem, WorkerError
from modelzoo.measure.jobs import Request, prepare_job
from modelzoo.measure.launcher import WORKER, LocalLauncher, LocalWorker
from modelzoo.records.protocol import PrepareJob


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return another interpreter: a script that leaves a trace and then becomes this one."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\necho "$2 $PYTHONPATH" >>{tmp_path}/trace\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def test_each_setting_runs_in_its_own_interpreter_with_this_suite_and_the_same_weights(python: Path) -> None:
    """The weights are made once and used by both, and the runs come in the order of the settings."""
    request = Request(mlp(), (RANDOM.replace(python=str(python)), RANDOM), SHORT, audit=False)
    first, second = runs_of(request)
    assert (first.error, second.error) == (None, None)
    assert (first.requested.python, second.requested.python) == (str(python), None)
    assert first.report is not None and second.report is not None
    assert first.report.prepared.weights == second.report.prepared.weights
    lines = (python.parent / "trace").read_text().splitlines()
    workers = [line for line in lines if line.startswith("modelzoo.measure.worker")]
    assert len(workers) == 2, "the preparation and one measurement"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_worker_is_restricted_to_the_cpus_that_the_launcher_names(tmp_path: Path, numpy_engine: None) -> None:
    """The restriction holds from the start and is recorded."""
    cpu, work = max(os.sched_getaffinity(0)), odd_numpy(tmp_path / "odd")
    request = Request(work, (numpy_setting(work),), SHORT, audit=False, launcher=LocalLauncher(cpus=frozenset({cpu})))
    (run,) = runs_of(request)
    assert run.report is not None
    assert run.report.provenance.cpus == (cpu,)


def test_a_worker_does_not_inherit_the_cpu_that_its_parent_is_bound_to(
    bound: frozenset[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member of a fleet imports torch, which may bind it, before it starts workers."""
    started: list[list[str]] = []

    def start(words: list[str], **how: object) -> None:
        started.append(words)
        raise OSError(0, "not started")

    monkeypatch.setattr("modelzoo.measure.launcher.subprocess.Popen", start)
    for cpus in ({min(bound)}, bound):
        os.sched_setaffinity(0, cpus)
        with Path(os.devnull).open("wb") as null, pytest.raises(EnvironmentProblem, match="not started"):
            LocalLauncher().start(PrepareJob("", (), None), {}, null)
    own = [sys.executable, *WORKER]
    assert started == [["taskset", "--cpu-list", ",".join(map(str, sorted(bound))), *own], own]


def test_an_interpreter_that_does_not_exist_any_more_is_one_line() -> None:
    """It fails as a setting that cannot run, not with a traceback."""
    request = Request(mlp(), (RANDOM.replace(python="/nonexistent/python"),), SHORT)
    (run,) = runs_of(request)
    assert run.error is not None
    assert run.error.startswith("python=/nonexistent/python cannot be run as an interpreter: No such file or directory")
    assert run.error_kind == "UsageError"


def test_a_suspended_worker_uses_no_cpu_and_goes_on_when_it_is_resumed() -> None:
    """All of its threads stop; a worker that has ended meanwhile is no error."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    worker = LocalWorker(process)
    try:
        worker.suspend()
        _wait_for(process, psutil.STATUS_STOPPED)
        before = psutil.Process(process.pid).cpu_times().user
        time.sleep(0.2)
        assert psutil.Process(process.pid).cpu_times().user == before
        worker.resume()
        _wait_for(process, psutil.STATUS_RUNNING)
    finally:
        worker.kill()
        process.wait()
    worker.suspend()
    worker.resume()
    worker.kill()


def _wait_for(process: subprocess.Popen[bytes], status: str) -> None:
    deadline = time.monotonic() + 10
    while psutil.Process(process.pid).status() != status:
        assert time.monotonic() < deadline, f"the process is not {status}"
        time.sleep(0.01)


MISSING = "Traceback\nModuleNotFoundError: No module named 'torch'\n"


@pytest.mark.parametrize(
    ("python", "code", "output", "kind", "message"),
    [
        (sys.executable, -signal.SIGSEGV, "", WorkerError, "ended by SIGSEGV"),
        (sys.executable, -signal.SIGILL, "", WorkerError, r"SIGILL \(this build of torch uses instructions that this"),
        (sys.executable, 3, "", WorkerError, "ended with code 3: no output"),
        (sys.executable, 1, MISSING, EnvironmentProblem, "no module 'torch': run ./scripts/run once"),
        (
            sys.executable,
            1,
            MISSING.replace("torch", "own.part"),
            EnvironmentProblem,
            "'own.part': install it, or",
        ),
        ("/other/python", 1, MISSING, EnvironmentProblem, "/other/python has no module 'torch': install it there"),
    ],
)
def test_every_end_is_explained(python: str, code: int, output: str, kind: type[Exception], message: str) -> None:
    """Signals by name, with the likely cause; a missing module with what to do."""
    error = LocalLauncher(python).explain(prepare_job(mlp(), (RANDOM,)), code, output)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error

"""Where workers run, how they are started and ended, and what makes another interpreter unusable."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from toy_workloads import RANDOM, SHORT, mlp, numpy_setting, odd_numpy, runs_of

from modelzoo.errors import EnvironmentProblem, UsageError, WorkerError
from modelzoo.machine.linux import format_cpu_list
from modelzoo.measure.jobs import Request, prepare_job
from modelzoo.measure.launcher import REQUIRED, WORKER, LocalLauncher, find_interpreter, suite_path
from modelzoo.records.protocol import PrepareJob
from modelzoo.workload.discovery import CHECKOUT


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Return another interpreter: a script that leaves a trace and then becomes this one."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\necho "$2 $PYTHONPATH" >>{tmp_path}/trace\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def test_each_setting_runs_in_its_own_interpreter_with_this_suite_and_the_same_weights(
    python: Path, tmp_path: Path, numpy_engine: None
) -> None:
    """The runs come in the order of the settings."""
    work = odd_numpy(tmp_path / "odd")
    here = numpy_setting(work)
    first, second = runs_of(Request(work, (here.replace(python=str(python)), here), SHORT, audit=False))
    assert (first.error, second.error) == (None, None)
    assert (first.requested.python, second.requested.python) == (str(python), None)
    assert first.report is not None and second.report is not None
    assert first.report.prepared.weights == second.report.prepared.weights
    lines = (python.parent / "trace").read_text().splitlines()
    workers = [line for line in lines if line.startswith("modelzoo.measure.worker")]
    assert len(workers) == 2, "the preparation and one measurement"


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
    assert started == [["taskset", "--cpu-list", format_cpu_list(bound), *own], own]


def test_an_interpreter_that_does_not_exist_any_more_is_one_line() -> None:
    """It fails as a setting that cannot run, not with a traceback."""
    (run,) = runs_of(Request(mlp(), (RANDOM.replace(python="/nonexistent/python"),), SHORT))
    problem = "python=/nonexistent/python cannot be run as an interpreter: No such file or directory"
    assert (run.error or "").startswith(problem)
    assert run.error_kind == "UsageError"


MISSING = "Traceback\nModuleNotFoundError: No module named 'torch'\n"


@pytest.mark.parametrize(
    ("python", "code", "output", "kind", "message"),
    [
        (sys.executable, -signal.SIGSEGV, "", WorkerError, "ended by SIGSEGV"),
        (sys.executable, -signal.SIGILL, "", WorkerError, r"SIGILL \(this build of torch uses instructions that this"),
        (sys.executable, 3, "", WorkerError, "ended with code 3: no output"),
        (sys.executable, 1, MISSING, EnvironmentProblem, "no module 'torch': run ./scripts/run once"),
        (sys.executable, 1, MISSING.replace("torch", "own.part"), EnvironmentProblem, "'own.part': install it, or"),
        ("/other/python", 1, MISSING, EnvironmentProblem, "/other/python has no module 'torch': install it there"),
    ],
)
def test_every_end_is_explained(python: str, code: int, output: str, kind: type[Exception], message: str) -> None:
    """Signals by name, with the likely cause; a missing module with what to do."""
    error = LocalLauncher(python).explain(prepare_job(mlp(), (RANDOM,)), code, output)
    assert type(error) is kind
    with pytest.raises(kind, match=message):
        raise error


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

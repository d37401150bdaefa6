"""Where workers run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from toy_workloads import RANDOM, SHORT, mlp

from modelzoo.measure import schedule
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.measure.schedule import Request


def test_a_worker_runs_with_the_interpreter_that_the_launcher_names(tmp_path: Path) -> None:
    """Another interpreter, here a script that leaves a trace and then becomes this one."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho started >>{tmp_path}/trace\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    request = Request(mlp(), (RANDOM,), SHORT, 1, audit=False, launcher=LocalLauncher(str(python)))
    (run,) = schedule.run(request, lambda event: None)
    assert run.error is None
    assert (tmp_path / "trace").read_text().count("started") == 2, "the preparation and one measurement"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_worker_is_restricted_to_the_cpus_that_the_launcher_names() -> None:
    """The restriction holds from the start and is recorded."""
    cpu = max(os.sched_getaffinity(0))
    request = Request(mlp(), (RANDOM,), SHORT, 1, audit=False, launcher=LocalLauncher(cpus=frozenset({cpu})))
    (run,) = schedule.run(request, lambda event: None)
    assert run.report is not None
    assert run.report.cpus == (cpu,)


def test_an_interpreter_that_does_not_exist_is_one_line() -> None:
    """It fails as a setting that cannot run, not with a traceback."""
    request = Request(mlp(), (RANDOM,), SHORT, 1, launcher=LocalLauncher("/nonexistent/python"))
    (run,) = schedule.run(request, lambda event: None)
    assert run.error == "cannot start /nonexistent/python: No such file or directory; check that it is installed"
    assert run.error_kind == "EnvironmentProblem"

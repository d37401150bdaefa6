"""The environment that workers are given."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_workloads import MLP, RANDOM, mlp

from modelzoo.cli import app as cli
from modelzoo.engines import create_engine
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine.memory import REQUESTS, find_library, huge_pages_problem, system_mode
from modelzoo.measure import jobs
from modelzoo.records.run import EnvironmentChanges
from modelzoo.results import store
from modelzoo.setting import ResolvedSetting


def test_libraries_get_their_threads_before_they_load() -> None:
    """OpenMP and BLAS libraries read these variables once."""
    variables = jobs.job_environment(create_engine().variables(ResolvedSetting(threads=3))).variables
    assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"3"}


def test_an_unknown_math_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would ignore it without a word."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "bf61")
    with pytest.raises(UsageError, match="unknown to oneDNN"):
        jobs.prepare_job(mlp(), (RANDOM,))


def test_each_worker_has_the_memory_of_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is what the call preloads, glibc that nothing of the kind is; the result has the proof."""
    try:
        jemalloc, tcmalloc = find_library("jemalloc"), find_library("tcmalloc")
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    if problem := huge_pages_problem(system_mode(), "glibc"):
        pytest.skip(problem)
    monkeypatch.setenv("LD_PRELOAD", jemalloc)
    path = tmp_path / "r.json"
    size = ["--option", "width=2048", "--option", "depth=1"]  # 16 MiB of weights
    words = ["--processes", "1", "--warmup", "1", "--iterations", "3", "--no-audit", "--threads", "1"]
    settings = ["malloc=default", "malloc=glibc thp=on", "malloc=tcmalloc thp=off"]
    named = [word for text in settings for word in ("--setting", text)]
    assert cli.main(["run", str(MLP), *named, *size, *words, "--json", str(path)]) == 0
    found = {}
    for run in store.read(path).runs:
        assert run.report is not None and run.report.usage is not None, run.error
        own, huge = run.report.provenance, bool(run.report.usage.huge_pages)
        found[run.requested.malloc] = (own.machine.allocator, huge, own.environment)
    default = found.pop("default")
    assert (default[0], default[2]) == ("jemalloc", EnvironmentChanges())
    assert found == {
        "glibc": ("glibc", True, EnvironmentChanges({"LD_PRELOAD": jemalloc}, dict(REQUESTS))),
        "tcmalloc": ("tcmalloc", False, EnvironmentChanges({"LD_PRELOAD": jemalloc}, {"LD_PRELOAD": tcmalloc})),
    }

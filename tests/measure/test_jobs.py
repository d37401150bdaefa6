"""The environment that workers are given."""

from __future__ import annotations

import pytest
from toy_workloads import RANDOM, mlp

from modelzoo.engines import create_engine
from modelzoo.errors import UsageError
from modelzoo.measure import jobs
from modelzoo.setting import ResolvedSetting

FAST_MATH = ResolvedSetting("bf16", "fastmath", threads=3, batch=1)


def environment(setting: ResolvedSetting) -> jobs.JobEnvironment:
    """The environment in which torch times ``setting``."""
    return jobs.job_environment(create_engine().variables(setting))


def test_libraries_get_their_threads_before_they_load() -> None:
    """OpenMP and BLAS libraries read these variables once."""
    variables = environment(FAST_MATH).variables
    assert {variables[f"{name}_NUM_THREADS"] for name in ("OMP", "MKL", "OPENBLAS")} == {"3"}


def test_fast_math_is_set_for_the_timed_process_only_if_it_was_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 and autocast get no fast-math variable, whatever was inherited, and the record says so."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    found = environment(FAST_MATH)
    assert found.variables["DNNL_DEFAULT_FPMATH_MODE"] == "BF16"
    assert (found.changes.removed, found.changes.applied) == ({}, {"DNNL_DEFAULT_FPMATH_MODE": "BF16"})
    for setting in (ResolvedSetting(), ResolvedSetting("bf16", "autocast")):
        found = environment(setting)
        assert "DNNL_DEFAULT_FPMATH_MODE" not in found.variables
        assert found.changes.removed == {"DNNL_DEFAULT_FPMATH_MODE": "BF16"}


def test_the_preparation_runs_in_plain_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told the inherited math mode instead of getting it."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "BF16")
    assert "DNNL_DEFAULT_FPMATH_MODE" not in jobs.prepare_environment().variables
    assert jobs.prepare_job(mlp(), (RANDOM,), "torch").math_mode == "bf16"


def test_an_unknown_math_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN would ignore it without a word."""
    monkeypatch.setenv("DNNL_DEFAULT_FPMATH_MODE", "bf61")
    with pytest.raises(UsageError, match="unknown to oneDNN"):
        jobs.prepare_job(mlp(), (RANDOM,), "torch")

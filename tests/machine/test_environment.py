"""Environment variables that change arithmetic or speed."""

from __future__ import annotations

import pytest

from modelzoo.machine.environment import (
    FAST_MATH_VARIABLES,
    KERNEL_VARIABLES,
    RECORDED_PREFIXES,
    THREAD_VARIABLES,
    fast_math_settings,
    recorded_environment,
)


def test_recorded_variables_hold_nothing_private() -> None:
    """Others, and torchrun's own, are left out, secrets hidden, and home directories and user names masked."""
    environ = {
        "HOME": "/home/joe",
        "USER": "joe",
        "PATH": "/usr/bin",
        "TORCH_HOME": "/home/joe/.cache",
        "LD_PRELOAD": "/scratch/joe/lib.so:/home/joe2/lib.so",
        "MODELZOO_API_KEY": "secret",
        "OMP_NUM_THREADS": "8",
        "TORCHELASTIC_RUN_ID": "none",
    }
    assert recorded_environment(environ) == {
        "LD_PRELOAD": "/scratch/USER/lib.so:/home/USER/lib.so",
        "MODELZOO_API_KEY": "(hidden)",
        "OMP_NUM_THREADS": "8",
        "TORCH_HOME": "~/.cache",
    }


@pytest.mark.parametrize("name", [*FAST_MATH_VARIABLES, *THREAD_VARIABLES, *KERNEL_VARIABLES])
def test_every_known_variable_is_recorded(name: str) -> None:
    """A variable that changes arithmetic, threads or kernels is part of each result."""
    assert name.startswith(RECORDED_PREFIXES)


@pytest.mark.parametrize(
    ("value", "reported"), [("BF16", True), ("1", True), ("STRICT", False), ("0", False), ("", False)]
)
def test_values_that_keep_fp32_are_not_fast_math(value: str, reported: bool) -> None:
    """Strict, 0 and empty switch fast math off."""
    environ = {"DNNL_DEFAULT_FPMATH_MODE": value, "OTHER": "1"}
    assert fast_math_settings(environ) == ({"DNNL_DEFAULT_FPMATH_MODE": value} if reported else {})

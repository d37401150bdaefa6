"""A worker inherits no fast-math variable that was not requested."""

from __future__ import annotations

import pytest

from modelzoo.errors import UsageError
from modelzoo.machine.environment import FAST_MATH_VARIABLES
from modelzoo.machine.worker_environment import (
    MATH_MODE_VARIABLE,
    MATH_MODE_VARIABLES,
    inherited_math_mode,
    worker_environment,
)
from modelzoo.records.run import EnvironmentChanges

FAST_MATH = {MATH_MODE_VARIABLE: "BF16"}


@pytest.mark.parametrize("name", list(FAST_MATH_VARIABLES))
def test_fast_math_variables_are_removed_and_recorded(name: str) -> None:
    """Without fast math the worker gets none of them, and the record has each with its value."""
    variables, changes = worker_environment({name: "BF16", "PATH": "/bin"}, {})
    assert (variables, changes) == ({"PATH": "/bin"}, EnvironmentChanges({name: "BF16"}, {}))


def test_other_variables_are_passed_on() -> None:
    """Nothing is removed that does not change fp32; of what is set, only fast-math variables are recorded."""
    variables, changes = worker_environment({"PATH": "/bin", "OMP_NUM_THREADS": "9"}, {"OMP_NUM_THREADS": "2"})
    assert (variables, changes) == ({"PATH": "/bin", "OMP_NUM_THREADS": "2"}, EnvironmentChanges())


@pytest.mark.parametrize("value", ["BF16", "bf16"])
@pytest.mark.parametrize("name", MATH_MODE_VARIABLES)
def test_an_inherited_math_mode_that_is_set_anyway_is_not_reported(name: str, value: str) -> None:
    """``DNNL_DEFAULT_FPMATH_MODE=BF16 performance.py --bf16``: the variable reaches the worker, without a warning."""
    variables, changes = worker_environment({name: value}, FAST_MATH)
    assert (variables, changes) == (FAST_MATH, EnvironmentChanges({}, FAST_MATH))


def test_another_inherited_math_mode_is_replaced_and_recorded() -> None:
    """oneDNN reads the variable when it is loaded, so the requested mode must be in it."""
    variables, changes = worker_environment({MATH_MODE_VARIABLE: "ANY"}, FAST_MATH)
    assert (variables, changes) == (FAST_MATH, EnvironmentChanges({MATH_MODE_VARIABLE: "ANY"}, FAST_MATH))


@pytest.mark.parametrize(
    ("environ", "mode"),
    [
        ({}, ""),
        ({MATH_MODE_VARIABLE: ""}, ""),
        ({MATH_MODE_VARIABLE: "BF16"}, "bf16"),
        ({"ONEDNN_DEFAULT_FPMATH_MODE": "Any"}, "any"),
        ({MATH_MODE_VARIABLE: "STRICT", "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, "strict"),
    ],
)
def test_the_inherited_math_mode(environ: dict[str, str], mode: str) -> None:
    """The first variable that has a value counts, in any case of letters."""
    assert inherited_math_mode(environ) == mode


def test_a_value_that_onednn_does_not_know_is_an_error() -> None:
    """oneDNN would ignore it without a message."""
    with pytest.raises(UsageError, match="DNNL_DEFAULT_FPMATH_MODE=BF17 is unknown to oneDNN; use BF16 or STRICT"):
        inherited_math_mode({MATH_MODE_VARIABLE: "BF17"})

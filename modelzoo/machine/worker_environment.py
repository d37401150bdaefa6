"""The environment variables of a worker process: fp32 must be fp32, unless bf16 was requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from modelzoo.errors import UsageError
from modelzoo.machine.environment import FAST_MATH_VARIABLES

MATH_MODE_VARIABLE = "DNNL_DEFAULT_FPMATH_MODE"
MATH_MODE_VARIABLES = (MATH_MODE_VARIABLE, "ONEDNN_DEFAULT_FPMATH_MODE")
"""Both set oneDNN's default math mode; oneDNN reads the first of them that has a value."""
MATH_MODES = ("strict", "bf16", "f16", "any", "tf32")


@dataclass(frozen=True)
class WorkerEnvironment:
    """The variables of a worker, and how they differ from those of the call.

    Attributes:
        variables: all variables.
        removed: fast-math variables that the worker does not get, with the values that they had.
        applied: fast-math variables that were set for the worker.
    """

    variables: Mapping[str, str]
    removed: Mapping[str, str]
    applied: Mapping[str, str]


def inherited_math_mode(environ: Mapping[str, str]) -> str:
    """oneDNN's math mode in ``environ``, in lower case; empty if it is not set.

    Raises:
        UsageError: oneDNN does not know the value, and would ignore it.
    """
    for name in MATH_MODE_VARIABLES:
        value = environ.get(name, "").lower()
        if value:
            if value not in MATH_MODES:
                raise UsageError(f"{name}={environ[name]} is unknown to oneDNN; use BF16 or STRICT, or unset it")
            return value
    return ""


def scrub(environ: Mapping[str, str], *, fast_math: bool) -> WorkerEnvironment:
    """Remove all fast-math variables from ``environ``; set oneDNN's math mode to bf16 if ``fast_math``.

    oneDNN reads the variable when it is loaded, so it must be set before the process starts. An inherited variable
    with the value that is set is not reported as removed.
    """
    variables = {name: value for name, value in environ.items() if name not in FAST_MATH_VARIABLES}
    removed = {name: value for name, value in environ.items() if name in FAST_MATH_VARIABLES}
    applied = {MATH_MODE_VARIABLE: "BF16"} if fast_math else {}
    if fast_math:
        removed = {name: value for name, value in removed.items() if value.lower() != "bf16"}
    return WorkerEnvironment({**variables, **applied}, removed, applied)

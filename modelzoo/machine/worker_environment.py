"""The environment variables of a worker process: fp32 must be fp32, unless bf16 was requested."""

from __future__ import annotations

from collections.abc import Mapping

from modelzoo.errors import UsageError
from modelzoo.machine.environment import FAST_MATH_VARIABLES
from modelzoo.records.run import EnvironmentChanges

MATH_MODE_VARIABLE = "DNNL_DEFAULT_FPMATH_MODE"
MATH_MODE_VARIABLES = (MATH_MODE_VARIABLE, "ONEDNN_DEFAULT_FPMATH_MODE")
"""Both set oneDNN's default math mode; oneDNN reads the first of them that has a value."""
MATH_MODES = ("strict", "bf16", "f16", "any", "tf32")


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


def worker_environment(
    environ: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[dict[str, str], EnvironmentChanges]:
    """Return the variables of a worker, and what was done to the fast-math variables among them.

    An inherited fast-math variable is removed; it is not reported if ``wanted`` sets the same value.

    Args:
        environ: the environment of the call.
        wanted: what the engine needs. It is in force before any library is loaded.
    """
    inherited = {name: value for name, value in environ.items() if name in FAST_MATH_VARIABLES}
    kept = {name: value for name, value in environ.items() if name not in FAST_MATH_VARIABLES}
    applied = {name: value for name, value in wanted.items() if name in FAST_MATH_VARIABLES}
    modes = {value.lower() for value in applied.values()}
    removed = {name: value for name, value in inherited.items() if value.lower() not in modes}
    return {**kept, **wanted}, EnvironmentChanges(removed, applied)

"""The environment of a worker process: fp32 must be fp32, and allocator and huge pages those of the setting."""

from __future__ import annotations

from collections.abc import Mapping

from modelzoo.errors import UsageError
from modelzoo.machine import huge_pages
from modelzoo.machine.allocator import (
    LIBRARIES,
    current_allocator,
    find_library,
    replacement_name,
    require_allocator,
)
from modelzoo.machine.environment import FAST_MATH_VARIABLES
from modelzoo.records.run import EnvironmentChanges
from modelzoo.setting import Setting

MATH_MODE_VARIABLE = "DNNL_DEFAULT_FPMATH_MODE"
MATH_MODE_VARIABLES = (MATH_MODE_VARIABLE, "ONEDNN_DEFAULT_FPMATH_MODE")
"""Both set oneDNN's default math mode; oneDNN reads the first of them that has a value."""
MATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
PRELOAD = "LD_PRELOAD"
MEMORY_VARIABLES = (PRELOAD, *huge_pages.REQUESTS)
"""Variables that select allocator and huge pages."""
_SEPARATORS = {PRELOAD: ":", "GLIBC_TUNABLES": ":", "MALLOC_CONF": ",", "THP_MEM_ALLOC_ENABLE": ":"}


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


def memory_variables(setting: Setting) -> dict[str, str]:
    """Return the variables with which a worker has the allocator and the huge pages of ``setting`` from its start.

    ``worker_environment`` merges them with those that are inherited; an empty value removes what is inherited.
    It must be called on the machine, and in the installation, of that worker.

    Raises:
        EnvironmentProblem: the allocator is not installed, or this system cannot give huge pages.
    """
    found = {}
    if setting.malloc != "default":
        found[PRELOAD] = str(find_library(setting.malloc)) if setting.malloc in LIBRARIES else ""
    if setting.thp == "on":
        allocator = current_allocator() if setting.malloc == "default" else setting.malloc
        huge_pages.require_huge_pages(huge_pages.system_mode(), allocator)
        found.update(huge_pages.REQUESTS)
    elif setting.thp == "off":
        # torch would still align its tensors to huge pages.
        found["THP_MEM_ALLOC_ENABLE"] = ""
    return found


def enter(setting: Setting) -> None:
    """Put into effect, in the worker itself, what variables cannot; call it before anything large is allocated.

    Raises:
        EnvironmentProblem: the process has another allocator than ``setting`` says, or huge pages cannot be switched.
    """
    require_allocator(setting.malloc)
    if setting.thp != "default":
        huge_pages.set_allowed(setting.thp == "on")


def worker_environment(
    environ: Mapping[str, str], wanted: Mapping[str, str]
) -> tuple[dict[str, str], EnvironmentChanges]:
    """Return the variables of a worker, and what was done to those of fast math, allocator and huge pages.

    An inherited fast-math variable is removed; it is not reported if ``wanted`` sets the same value. The variables of
    allocator and huge pages stay as they are unless they are ``wanted``.

    Args:
        environ: the environment of the call.
        wanted: what the engine and the setting need. It is in force before any library is loaded.
    """
    inherited = {name: value for name, value in environ.items() if name in FAST_MATH_VARIABLES}
    kept = {name: value for name, value in environ.items() if name not in FAST_MATH_VARIABLES}
    applied = {name: value for name, value in wanted.items() if name in FAST_MATH_VARIABLES}
    modes = {value.lower() for value in applied.values()}
    removed = {name: value for name, value in inherited.items() if value.lower() not in modes}
    variables = {**kept, **wanted}
    for name in MEMORY_VARIABLES:
        if name not in wanted:
            continue
        before, after = _parts(name, environ.get(name, "")), _merged(name, environ.get(name, ""), wanted[name])
        variables[name] = _SEPARATORS[name].join(after)
        if not variables[name]:
            del variables[name]
        if not set(before) <= set(after):
            removed[name] = environ[name]
        if wanted[name]:
            applied[name] = wanted[name]
    return variables, EnvironmentChanges(removed, applied)


def _merged(name: str, inherited: str, wanted: str) -> list[str]:
    """The parts of variable ``name`` in the worker: ``wanted``, and what it does not replace of ``inherited``."""
    kept = [part for part in _parts(name, inherited) if not _is_replaced(name, part)]
    own = [wanted] if wanted else []
    return own + kept if name == PRELOAD else kept + own  # the first library counts, but the last option


def _parts(name: str, value: str) -> list[str]:
    # ld.so(8): the libraries in LD_PRELOAD are separated by spaces or colons.
    return [part for part in value.replace(" ", _SEPARATORS[name]).split(_SEPARATORS[name]) if part]


def _is_replaced(name: str, part: str) -> bool:
    """Whether ``part`` of an inherited variable decides what a setting decides: other libraries and tunables stay."""
    if name == PRELOAD:
        return replacement_name(part) is not None
    option = part.replace(":", "=").partition("=")[0]
    return name == "THP_MEM_ALLOC_ENABLE" or option in ("glibc.malloc.hugetlb", "thp")

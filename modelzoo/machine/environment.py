"""The environment of the suite's processes: variables that change arithmetic or speed, and those that a worker gets."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.files import private_path
from modelzoo.machine import memory
from modelzoo.machine.memory import LIBRARIES, current_allocator, find_library, replacement_name
from modelzoo.records.run import EnvironmentChanges
from modelzoo.setting import Setting

FAST_MATH_VARIABLES = (
    "DNNL_DEFAULT_FPMATH_MODE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "NVIDIA_TF32_OVERRIDE",
    "ARM_COMPUTE_FAST_MATH",
)
"""Variables that change the arithmetic of fp32 operators: oneDNN's math mode, TF32 in cuBLAS and in all of NVIDIA's
libraries, fast math in the Arm Compute Library."""
KERNEL_VARIABLES = {
    "OPENBLAS_CORETYPE": "openblas",
    "NVPL_BLAS_DEBUG_CPU_TYPE": "nvpl",
    "MKL_DEBUG_CPU_TYPE": "mkl",
    "MKL_ENABLE_INSTRUCTIONS": "mkl",
    "ONEDNN_MAX_CPU_ISA": "onednn",
    "DNNL_MAX_CPU_ISA": "onednn",
    "ATEN_CPU_CAPABILITY": "aten",
}
"""Variables that make a library select other kernels than those for this CPU, with its name in ``Libraries.uses``."""
IMAGE_ID_VARIABLE = "MODELZOO_IMAGE_ID"
"""The variable that tells a worker in a container the id of its image."""
RECORDED_PREFIXES = (
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NVPL_", "DNNL_", "ONEDNN_", "MKLDNN_"),
    *("ARM_COMPUTE_", "ATEN_", "TORCH", "PYTORCH_", "NVIDIA_TF32_OVERRIDE", "MALLOC_", "GLIBC_TUNABLES"),
    *("LD_PRELOAD", "LD_BIND_NOW", "THP_MEM_ALLOC_ENABLE", "LRU_CACHE_CAPACITY", "MODELZOO_", "QEMU_"),
)
"""A variable whose name starts with one of these is recorded with each result."""
_BOOKKEEPING = "TORCH_WARM_POOL"
"""The suite sets it for each worker that compiles: before it measures, no process is left that could compile."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY($|_)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return _SECRET.search(name) is not None


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change speed or precision, without secrets and private paths."""
    return {
        name: "(hidden)" if is_secret(name) else private_path(environ[name], environ)
        for name in sorted(environ)
        if name.startswith(RECORDED_PREFIXES) and not name.startswith(_BOOKKEEPING)
    }


def fast_math_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``FAST_MATH_VARIABLES`` whose values allow less precision than fp32."""
    return {
        name: environ[name] for name in FAST_MATH_VARIABLES if environ.get(name, "").lower() not in ("", "0", "strict")
    }


MATH_MODE_VARIABLE = "DNNL_DEFAULT_FPMATH_MODE"
MATH_MODE_VARIABLES = (MATH_MODE_VARIABLE, "ONEDNN_DEFAULT_FPMATH_MODE")
"""Both set oneDNN's default math mode; oneDNN reads the first of them that has a value."""
MATH_MODES = ("strict", "bf16", "f16", "any", "tf32")
PRELOAD = "LD_PRELOAD"
MEMORY_VARIABLES = (PRELOAD, *memory.REQUESTS)
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
        found[PRELOAD] = find_library(setting.malloc) if setting.malloc in LIBRARIES else ""
    if setting.thp == "on":
        allocator = current_allocator() if setting.malloc == "default" else setting.malloc
        if problem := memory.huge_pages_problem(memory.system_mode(), allocator):
            raise EnvironmentProblem(f"thp=on: {problem}")
        found.update(memory.REQUESTS)
    elif setting.thp == "off":
        # torch would still align its tensors to huge pages.
        found["THP_MEM_ALLOC_ENABLE"] = ""
    return found


def enter(setting: Setting) -> None:
    """Put into effect, in the worker itself, what variables cannot; call it before anything large is allocated.

    Raises:
        EnvironmentProblem: the process has another allocator than ``setting`` says, or huge pages cannot be switched.
    """
    if setting.malloc != "default" and (found := current_allocator()) != setting.malloc:
        raise EnvironmentProblem(
            f"malloc={setting.malloc}: the process that was to use it uses {found or 'an unknown allocator'}; check "
            "that LD_PRELOAD takes effect here (ldd shows whether the library fits this system)"
        )
    if setting.thp != "default":
        memory.set_allowed(setting.thp == "on")


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
        # ld.so(8): the libraries in LD_PRELOAD are separated by spaces or colons.
        separator, own = _SEPARATORS[name], [wanted[name]] if wanted[name] else []
        before = [part for part in environ.get(name, "").replace(" ", separator).split(separator) if part]
        others = [part for part in before if not _is_replaced(name, part)]
        after = own + others if name == PRELOAD else others + own  # the first library counts, but the last option
        variables[name] = separator.join(after)
        if not after:
            del variables[name]
        if not set(before) <= set(after):
            removed[name] = environ[name]
        if own:
            applied[name] = wanted[name]
    return variables, EnvironmentChanges(removed, applied)


def _is_replaced(name: str, part: str) -> bool:
    """Whether ``part`` of an inherited variable decides what a setting decides: other libraries and tunables stay."""
    if name == PRELOAD:
        return replacement_name(part) is not None
    option = part.replace(":", "=").partition("=")[0]
    return name == "THP_MEM_ALLOC_ENABLE" or option in ("glibc.malloc.hugetlb", "thp")

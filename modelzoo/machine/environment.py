"""Environment variables that change the arithmetic or the speed of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from modelzoo.files import private_path

FAST_MATH_VARIABLES = (
    "DNNL_DEFAULT_FPMATH_MODE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "NVIDIA_TF32_OVERRIDE",
    "ARM_COMPUTE_FAST_MATH",
)
"""Variables that change the arithmetic of fp32 operators: oneDNN's math mode, TF32 in cuBLAS and in all of NVIDIA's
libraries, fast math in the Arm Compute Library."""
OPENMP_AND_BLAS_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that set a worker's number of threads; the OpenMP and BLAS libraries read them when they are loaded, before
torch can set a number."""
THREAD_VARIABLES = (*OPENMP_AND_BLAS_THREADS, "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")
"""Variables that set the number of threads of any library."""
KERNEL_VARIABLES = (
    "OPENBLAS_CORETYPE",
    "NVPL_BLAS_DEBUG_CPU_TYPE",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
)
"""Variables that make a library select other kernels than those for this CPU."""
IMAGE_ID_VARIABLE = "MODELZOO_IMAGE_ID"
"""The variable that tells a worker in a container the id of its image."""
RECORDED_PREFIXES = (
    "OMP_",
    "KMP_",
    "GOMP_",
    "MKL_",
    "OPENBLAS_",
    "GOTO_",
    "BLIS_",
    "NVPL_",
    "DNNL_",
    "ONEDNN_",
    "MKLDNN_",
    "ARM_COMPUTE_",
    "ATEN_",
    "TORCH",
    "PYTORCH_",
    "NVIDIA_TF32_OVERRIDE",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "LD_BIND_NOW",
    "THP_MEM_ALLOC_ENABLE",
    "LRU_CACHE_CAPACITY",
    "MODELZOO_",
    "QEMU_",
)
"""A variable whose name starts with one of these is recorded with each result."""
_BOOKKEEPING = "TORCHELASTIC_"
"""Such variables are torchrun's own: ids and paths that are different in every process."""
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(^|_)KEY($|_)", re.IGNORECASE)


def recorded_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that change speed or precision, without secrets and private paths."""
    return {
        name: "(hidden)" if _SECRET.search(name) else private_path(environ[name], environ)
        for name in sorted(environ)
        if name.startswith(RECORDED_PREFIXES) and not name.startswith(_BOOKKEEPING)
    }


def fast_math_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``FAST_MATH_VARIABLES`` whose values allow less precision than fp32."""
    return {
        name: environ[name] for name in FAST_MATH_VARIABLES if environ.get(name, "").lower() not in ("", "0", "strict")
    }

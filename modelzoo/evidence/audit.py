"""Switch the logs of oneDNN and MKL on, and say which libraries torch computes with.

``log_kernels`` shows whether a process ran the kernels of another one that was audited.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from modelzoo.evidence.logs import parse_onednn
from modelzoo.evidence.observation import kernel_digest
from modelzoo.evidence.profiler import Written, captured_output
from modelzoo.machine.libraries import parse_torch_config
from modelzoo.records.evidence import KernelDigest, LogSource

_VERBOSE_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")
_LOGS_EXECUTIONS = {"1", "2", "all", "-1", "profile", "profile_exec"}
"""Their values that log every primitive that is executed (oneDNN's developer guide)."""


class NoKernelLogError(RuntimeError):
    """The libraries' logs do not show which kernels ran; the message says why, in one line."""


def log_kernels(call: Callable[[], object]) -> KernelDigest:
    """Run ``call`` once with oneDNN's and MKL's verbose modes on, and say which kernels ran.

    This takes little longer than the pass itself.

    Raises:
        NoKernelLogError: there is no log, or it names no kernel.
    """
    problems: list[str] = []
    with library_logs(problems) as (written, _):
        call()
        digest = kernel_digest(written())
    if digest is None:
        raise NoKernelLogError("; ".join(problems) or "the logs of oneDNN and MKL name no kernel that ran")
    return digest


@contextlib.contextmanager
def library_logs(problems: list[str]) -> Iterator[tuple[Written, LogSource]]:
    """Switch oneDNN's and MKL's verbose modes on; yield what returns their output, and how oneDNN's was switched on.

    Args:
        problems: receives a message if a mode cannot be switched on.
    """
    from torch.backends import mkl, mkldnn

    preset = next((os.environ[name] for name in _VERBOSE_VARIABLES if os.environ.get(name)), "")
    source = LogSource.NONE
    with contextlib.ExitStack() as stack:
        if not mkldnn.is_available():
            problems.append("this PyTorch build has no oneDNN")
        elif "filter=" in preset:
            problems.append(f"{preset} filters oneDNN's log, which may lack kernels: unset the variable")
        elif not _LOGS_EXECUTIONS.isdisjoint(preset.split(",")):
            source = LogSource.ENVIRONMENT
        else:
            try:
                stack.enter_context(mkldnn.verbose(mkldnn.VERBOSE_ON))
                source = LogSource.RUNTIME_SWITCH
            except (AttributeError, AssertionError, RuntimeError):
                problems.append(
                    "this PyTorch build cannot switch oneDNN's verbose mode on: set ONEDNN_VERBOSE=1 "
                    "before the process starts"
                )
        if mkl.is_available():
            try:
                stack.enter_context(mkl.verbose(mkl.VERBOSE_ON))
            except (AttributeError, AssertionError, RuntimeError):
                problems.append("this PyTorch build cannot switch MKL's verbose mode on")
        yield stack.enter_context(captured_output(problems)), source


def shows_onednn(source: LogSource) -> bool:
    """Whether it is known what oneDNN runs: there is a log, or this torch has no oneDNN."""
    from torch.backends import mkldnn

    return source is not LogSource.NONE or not mkldnn.is_available()


@contextlib.contextmanager
def watched_kernels() -> Iterator[Callable[[], tuple[str, ...] | None]]:
    """Yield a function that returns which products oneDNN ran so far, each kernel once; ``None`` without a log."""
    with library_logs([]) as (written, source):

        def ran() -> tuple[str, ...] | None:
            log = parse_onednn(written())
            if not shows_onednn(source) or log.unread:
                return None
            return tuple(sorted({primitive.kernel for primitive in log.primitives if primitive.is_compute}))

        yield ran


def blas_name() -> str:
    """Return the name of torch's BLAS, such as ``mkl 2024.2`` or ``openblas 0.3.29 neoversen2``.

    ``torch.__config__`` names the kind of library; OpenBLAS itself reports its version and core. The copies that NumPy
    and SciPy install are ignored.
    """
    import torch

    build = parse_torch_config(torch.__config__.show())
    kind = (build.blas or ("mkl" if build.mkl else "unknown")).lower()
    if kind == "mkl":
        return f"mkl {build.mkl}" if build.mkl else "mkl"
    libraries: list[dict[str, Any]] = []
    with contextlib.suppress(Exception):  # a library that threadpoolctl cannot read must not end the run
        from threadpoolctl import threadpool_info

        libraries = threadpool_info()
    for library in libraries:
        if library.get("user_api") != "blas":
            continue
        if Path(library.get("filepath", "")).parent.name in ("numpy.libs", "scipy.libs", "numpy", "scipy"):
            continue
        fields = (library.get("internal_api"), library.get("version"), library.get("architecture"))
        return " ".join(str(value).lower() for value in fields if value)
    return {"open": "openblas"}.get(kind, kind)


def onednn_version() -> str:
    """Return the version of oneDNN that torch was built with; empty without oneDNN."""
    import torch

    return parse_torch_config(torch.__config__.show()).onednn or ""

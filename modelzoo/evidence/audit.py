"""Run a few forward passes under observation and record which operators and kernels they used.

Audits are never part of the timing: the worker calls ``run_audit`` after the last timed sample. They record;
``modelzoo.evidence.verdict`` judges. ``log_kernels`` only shows whether a process ran the kernels of another one that
was audited.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Callable, Optional

from modelzoo.evidence.observation import Audit, Observation, kernel_digest, logged_operations, parse_observation
from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.evidence.profiler import Written, captured_output, run_profiled
from modelzoo.machine.libraries import parse_torch_config
from modelzoo.records.evidence import KernelDigest, LogSource

_VERBOSE_VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")


def run_audit(call: Callable[[], object], iterations: int = 2) -> Audit:
    """Run ``call`` under the profiler and with oneDNN's verbose mode on.

    With MKL, one further pass records which BLAS functions are called. Standard output and error are captured at
    file-descriptor level during the passes; what the model itself printed goes to standard error afterwards.

    Args:
        call: one warmed-up forward pass, with its own autocast and inference mode.
        iterations: number of passes.
    """
    return parse_observation(observe(call, iterations))


def observe(call: Callable[[], object], iterations: int) -> Observation:
    """Run the passes of ``run_audit``; return what was recorded, unparsed."""
    problems: list[str] = []
    with _verbose_onednn(problems) as source, captured_output(problems) as written:
        begin = time.perf_counter()
        events = run_profiled(call, iterations, problems)
        seconds = time.perf_counter() - begin
        output = written()
    mkl_output = ""
    with _verbose_mkl(problems) as is_verbose, captured_output(problems) as written:
        if is_verbose:
            call()
            mkl_output = written()
    # The time to start and stop the profiler is not part of a pass.
    seconds = sum(event.seconds for event in events) or seconds
    return Observation(
        iterations=iterations,
        seconds=seconds,
        events=events,
        onednn_output=output,
        mkl_output=mkl_output,
        log_source=source,
        blas=blas_name(),
        sbgemm=calls_sbgemm(),
        onednn_version=onednn_version(),
        problems=tuple(dict.fromkeys(problems)),
        architecture=platform.machine(),
    )


class NoKernelLogError(RuntimeError):
    """The libraries' logs do not show which kernels ran; the message says why, in one line."""


def log_kernels(call: Callable[[], object]) -> KernelDigest:
    """Run ``call`` once with oneDNN's and MKL's verbose modes on, and say which kernels ran.

    Unlike ``run_audit``, this takes little longer than the pass itself.

    Raises:
        NoKernelLogError: there is no log, or it names no kernel.
    """
    problems: list[str] = []
    digest = kernel_digest(_logged(call, problems))
    if digest is None:
        raise NoKernelLogError("; ".join(problems) or "the logs of oneDNN and MKL name no kernel that ran")
    return digest


def log_operations(call: Callable[[], object]) -> Mapping[str, int] | None:
    """Run ``call`` once as ``log_kernels`` does, and return what ``logged_operations`` does."""
    return logged_operations(_logged(call, []))


def _logged(call: Callable[[], object], problems: list[str]) -> str:
    with library_logs(problems) as (written, _):
        call()
        return written()


@contextlib.contextmanager
def library_logs(problems: list[str]) -> Iterator[tuple[Written, bool]]:
    """Switch oneDNN's and MKL's verbose modes on; yield what returns their output, and whether it shows all of oneDNN.

    Args:
        problems: receives a message if a mode cannot be switched on.
    """
    from torch.backends import mkldnn

    with _verbose_onednn(problems) as source, _verbose_mkl(problems), captured_output(problems) as written:
        yield written, source is not LogSource.NONE or not mkldnn.is_available()


@contextlib.contextmanager
def watched_kernels() -> Iterator[Callable[[], Optional[tuple[str, ...]]]]:
    """Yield a function that returns which products oneDNN ran so far, each kernel once; ``None`` without a log."""
    with library_logs([]) as (written, is_complete):

        def ran() -> tuple[str, ...] | None:
            log = parse_onednn(written())
            if not is_complete or log.unread:
                return None
            return tuple(sorted({primitive.kernel for primitive in log.primitives if primitive.is_compute}))

        yield ran


@contextlib.contextmanager
def _verbose_onednn(problems: list[str]) -> Iterator[LogSource]:
    """Switch oneDNN's verbose mode on, if the environment did not; yield how."""
    from torch.backends import mkldnn

    preset = next((os.environ[name] for name in _VERBOSE_VARIABLES if os.environ.get(name)), "")
    with contextlib.ExitStack() as stack:
        source = LogSource.NONE
        if not mkldnn.is_available():
            problems.append("this PyTorch build has no oneDNN")
        elif "filter=" in preset:
            problems.append(f"{preset} filters oneDNN's log, which may lack kernels: unset the variable")
        elif _logs_executions(preset):
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
        yield source


def _logs_executions(preset: str) -> bool:
    """Whether this value of ``ONEDNN_VERBOSE`` logs every primitive that is executed (oneDNN's developer guide)."""
    return not {"1", "2", "all", "-1", "profile", "profile_exec"}.isdisjoint(preset.split(","))


@contextlib.contextmanager
def _verbose_mkl(problems: list[str]) -> Iterator[bool]:
    """Switch MKL's verbose mode on; yield whether that worked (``False`` in builds without MKL)."""
    import torch

    with contextlib.ExitStack() as stack:
        is_verbose = False
        if torch.backends.mkl.is_available():
            try:
                stack.enter_context(torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON))
                is_verbose = True
            except (AttributeError, AssertionError, RuntimeError):
                problems.append("this PyTorch build cannot switch MKL's verbose mode on")
        yield is_verbose


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
    return _loaded_blas() or {"open": "openblas"}.get(kind, kind)


def _loaded_blas() -> str:
    """Name, version and core of the loaded BLAS; empty if none is recognized."""
    try:
        from threadpoolctl import threadpool_info

        libraries = threadpool_info()
    except Exception:  # a library that threadpoolctl cannot read must not end the run
        return ""
    for library in libraries:
        if library.get("user_api") != "blas":
            continue
        if Path(library.get("filepath", "")).parent.name in ("numpy.libs", "scipy.libs", "numpy", "scipy"):
            continue
        fields = (library.get("internal_api"), library.get("version"), library.get("architecture"))
        return " ".join(str(value).lower() for value in fields if value)
    return ""


def calls_sbgemm(library: Path | None = None) -> bool | None:
    """Return whether torch passes bf16 products to its BLAS.

    If the build found ``sbgemm_`` in the BLAS (``BLAS_HAS_SBGEMM``), ``at::native::cpublas::gemm`` calls it for every
    bf16 product, and the symbol is named in ``libtorch_cpu.so``, whether OpenBLAS is linked statically or loaded.
    Otherwise ATen's own loops compute them.

    Args:
        library: the file to search, by default torch's ``libtorch_cpu.so``.

    Returns:
        ``None`` if the library was not found, and with MKL, whose verbose output shows it.
    """
    if library is None:
        if blas_name().startswith("mkl"):
            return None
        import torch

        library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"\0sbgemm_\0") >= 0
    except OSError:  # a build with its libraries elsewhere
        return None


def onednn_version() -> str:
    """Return the version of oneDNN that torch was built with; empty without oneDNN."""
    import torch

    return parse_torch_config(torch.__config__.show()).onednn or ""

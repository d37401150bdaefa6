"""Run a few forward passes under observation and record which operators and kernels they used.

Audits are never part of the timing: the worker calls ``run_audit`` after the last timed sample. They record;
``modelzoo.evidence.verdict`` judges. ``log_kernels`` only shows whether a process ran the kernels of another one that
was audited.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Callable

from modelzoo.evidence.capture import captured_output
from modelzoo.evidence.kernel_digest import kernel_digest
from modelzoo.evidence.observation import Audit, Observation, parse_observation
from modelzoo.evidence.profiler import run_profiled
from modelzoo.evidence.torch_build import blas_name, calls_sbgemm, onednn_version
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
    with _verbose_onednn(problems), _verbose_mkl(problems), captured_output(problems) as written:
        call()
        output = written()
    digest = kernel_digest(output)
    if digest is None:
        raise NoKernelLogError("; ".join(problems) or "the logs of oneDNN and MKL name no kernel that ran")
    return digest


@contextlib.contextmanager
def _verbose_onednn(problems: list[str]) -> Iterator[LogSource]:
    """Switch oneDNN's verbose mode on; yield how."""
    from torch.backends import mkldnn

    is_preset = any(os.environ.get(name, "0") not in ("", "0", "none") for name in _VERBOSE_VARIABLES)
    with contextlib.ExitStack() as stack:
        source = LogSource.ENVIRONMENT if is_preset else LogSource.NONE
        if not mkldnn.is_available():
            problems.append("this PyTorch build has no oneDNN")
        elif not is_preset:
            try:
                stack.enter_context(mkldnn.verbose(mkldnn.VERBOSE_ON))
                source = LogSource.RUNTIME_SWITCH
            except (AttributeError, AssertionError, RuntimeError):
                problems.append(
                    "this PyTorch build cannot switch oneDNN's verbose mode on: set ONEDNN_VERBOSE=1 "
                    "before the process starts"
                )
        yield source


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

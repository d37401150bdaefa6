"""Observe which kernels run: by the logs of oneDNN and MKL, and by torch's profiler on an accelerator.

What libraries print is captured at the level of file descriptors. ``log_kernels`` shows whether a process ran the
kernels of another one that was audited.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from modelzoo.evidence.device_attribution import DeviceKernel
from modelzoo.evidence.logs import parse_onednn
from modelzoo.evidence.observation import kernel_digest
from modelzoo.machine.installation import parse_torch_config
from modelzoo.records.evidence import KernelDigest, LogSource

# What Kineto, oneDNN and MKL print around a profile; of no use on the terminal.
_NOISE = re.compile(
    r"(onednn|dnnl|mkldnn)_verbose,|MKL_VERBOSE |USDT:|MIDR_EL1|DeviceProperties\.cpp|CuptiActivity"
    r"|^(STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d |Kineto"
)


class Written:
    """What was written to captured file descriptors."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        _flush()
        return os.fstat(self._descriptor).st_size

    def __call__(self, begin: int = 0) -> str:
        """Return what was written so far, from the byte ``begin`` on."""
        return os.pread(self._descriptor, self.size - begin, begin).decode("utf-8", "replace")


@contextlib.contextmanager
def captured_output(problems: list[str]) -> Iterator[Written]:
    """Redirect file descriptors 1 and 2 to a file; yield what returns all that was written so far.

    On exit, everything except the libraries' own output is printed to standard error. C's stdio buffer, which Python
    does not know, is flushed before and after.

    Args:
        problems: receives a message if a descriptor is closed.
    """
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as stack:
        _flush()
        for descriptor in (1, 2):
            try:
                saved = os.dup(descriptor)
            except OSError:
                problems.append(f"file descriptor {descriptor} is closed, so its output could not be captured")
                continue
            os.dup2(file.fileno(), descriptor)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, descriptor)

        written = Written(file.fileno())
        try:
            yield written
        finally:
            text = written()
            stack.close()
            for line in text.splitlines():
                if line.strip() and not _NOISE.search(line):
                    print(line, file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()
    with contextlib.suppress(OSError, AttributeError):
        _c_library().fflush(None)


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


PROFILED = ("cuda", "xpu")
"""The devices whose kernels torch's own profiler records. torch_npu has a profiler of its own, which writes files."""


CALL = "modelzoo::call "
"""The profiler's range around a call of an operator that is recorded; its place in the recording follows."""


def run_device_profiled(
    call: Callable[[], object], kind: str, synchronize: Callable[[], object], written: Written, problems: list[str]
) -> tuple[DeviceKernel, ...]:
    """Run ``call`` once under the profiler, and return every kernel that ran on the device.

    Args:
        call: one warmed-up forward pass.
        kind: ``cuda``, ``npu`` or ``xpu``.
        synchronize: waits for the device.
        written: what is printed meanwhile.
        problems: receives a message if there is no profiler for this device, or it recorded nothing.
    """
    if kind not in PROFILED:
        problems.append(f"torch's profiler does not record the kernels of {kind} devices")
        call()
        return ()
    synchronize()
    begin = written.size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        profiler = _profiler(kind)
        with profiler:
            call()
            synchronize()
    results = getattr(profiler, "kineto_results", None)
    kernels = device_kernels(results.events() if results is not None else ())
    if not kernels:
        printed = written(begin).splitlines()
        reason = next((line.strip() for line in printed if "CUPTI" in line.upper()), "is CUPTI installed?")
        problems.append(f"torch's profiler recorded no kernel on the {kind} device ({reason})")
    return kernels


def _profiler(kind: str) -> Any:
    from torch.autograd.profiler import profile

    # Without Kineto, torch records only how long operators take on the device.
    return profile(use_device=kind, use_kineto=True)


def device_kernels(events: Any) -> tuple[DeviceKernel, ...]:
    """The kernels among the profiler's events, in their order, each with the recorded call that launched it."""
    listed = list(events)
    on_host = {event.correlation_id(): event for event in listed if "CPU" in str(event.device_type())}
    ranges = sorted((each.start_ns(), each) for each in on_host.values() if each.name().startswith(CALL))
    starts = [start for start, _ in ranges]

    def call_of(launcher: Any) -> int | None:
        place = bisect.bisect_right(starts, launcher.start_ns()) - 1
        if place < 0 or launcher.start_ns() > ranges[place][0] + ranges[place][1].duration_ns():
            return None
        return int(ranges[place][1].name().removeprefix(CALL))

    found = []
    for event in listed:
        # A range of the host's may be shown on the device's time line.
        is_range = getattr(event, "is_user_annotation", lambda: False)() or event.name().startswith(CALL)
        if is_range or "CPU" in str(event.device_type()):
            continue
        linked = event.linked_correlation_id()
        launcher = on_host.get(linked) if linked > 0 else None
        call = call_of(launcher) if launcher is not None else None
        found.append(DeviceKernel(event.name(), event.duration_ns() / 1e9, call))
    return tuple(found)


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

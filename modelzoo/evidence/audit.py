"""Run a few forward passes under observation and record which operators and kernels they used.

Never part of the timing: the worker calls ``audit`` after the last timed sample. What is recorded is raw; the
judgement is ``modelzoo.evidence.verdict``'s.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable

from modelzoo.evidence.onednn_log import BlasCall, OneDnnLog, parse, parse_mkl

ROOT = "modelzoo::pass"
"""The profiler event that wraps one audited pass; its self time is that of Python between operators."""

# Lines that Kineto, oneDNN and MKL print around a profile and that say nothing to a user.
_NOISE = re.compile(
    r"(onednn|dnnl|mkldnn)_verbose,|MKL_VERBOSE |USDT:|MIDR_EL1|DeviceProperties\.cpp|CuptiActivity"
    r"|^(STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d |Kineto"
)


@dataclass(frozen=True)
class Event:
    """One call of one operator on the main thread.

    ``seconds`` is self time (children taken off), ``parent`` the index of the caller in ``Audit.events`` (-1:
    none). ``shapes`` and ``dtypes`` describe the arguments in order; dtypes are the profiler's words
    (``float``, ``c10::BFloat16``, ``Scalar``), empty where this torch does not record them.
    """

    name: str
    seconds: float
    parent: int
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audit:
    """What a few passes did.

    ``seconds`` is the wall time of all ``iterations`` together, slower than the timed ones. ``log_source``
    says how oneDNN was made to talk (``runtime switch``, ``environment``, ``none``); ``blas`` is the library
    behind products that do not go through oneDNN, and ``sbgemm`` whether torch gives it the bf16 ones
    (``None``: unknown); ``blas_calls`` what MKL says of one further pass; ``problems`` what could not be had,
    in words.
    """

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    log: OneDnnLog
    log_source: str
    blas: str
    sbgemm: bool | None = None
    blas_calls: tuple[BlasCall, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """An audit before it is read: what oneDNN and MKL printed, and the profiler's events."""

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    onednn_output: str
    mkl_output: str
    log_source: str
    blas: str
    sbgemm: bool | None = None
    onednn_version: str = ""
    problems: tuple[str, ...] = ()


def audit(call: Callable[[], object], iterations: int = 2) -> Audit:
    """Run ``call`` ``iterations`` times under the profiler and oneDNN's verbose mode.

    ``call`` is one warmed-up forward pass, with its own autocast and inference mode. With MKL one more pass
    asks which BLAS functions are called. Standard output and error are captured at file-descriptor level
    meanwhile; what is not the libraries' noise goes to standard error afterwards.
    """
    return read(observe(call, iterations))


def observe(call: Callable[[], object], iterations: int) -> Observation:
    """Run the passes of ``audit``."""
    problems: list[str] = []
    with _verbose_onednn(problems) as source, captured(problems) as written:
        begin = time.perf_counter()
        events = profiled(call, iterations, problems)
        seconds = time.perf_counter() - begin
        output = written()
    mkl_output = ""
    with _verbose_mkl(problems) as speaking, captured(problems) as written:
        if speaking:
            call()
            mkl_output = written()
    # The profiler's own start and stop are no part of a pass.
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


def read(seen: Observation) -> Audit:
    """Parse what the libraries printed."""
    log = parse(seen.onednn_output)
    # oneDNN introduces itself once in a process, before its first primitive; torch knows the version too.
    log = replace(log, version=log.version or seen.onednn_version)
    problems = seen.problems
    if log.unparsed:
        problems += (f"{log.unparsed} lines of oneDNN's output could not be read",)
    calls = parse_mkl(seen.mkl_output)
    kept = (seen.iterations, seen.seconds, seen.events)
    return Audit(*kept, log, seen.log_source, seen.blas, seen.sbgemm, calls, problems)


def profiled(
    call: Callable[[], object], iterations: int, problems: list[str], trace: Path | None = None
) -> tuple[Event, ...]:
    """Run the passes under the profiler, writing a Chrome trace to ``trace``.

    Without a working profiler they run all the same, and no event comes back; ``problems`` says so.
    """
    from torch.autograd.profiler import profile, record_function

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            profiler = profile(record_shapes=True)
            profiler.__enter__()
        except Exception as error:  # builds without Kineto differ in what they raise
            problems.append(f"this PyTorch build has no working profiler ({_first_line(error)})")
            for _ in range(iterations):
                call()
            return ()
        try:
            for _ in range(iterations):
                with record_function(ROOT):
                    call()
        finally:
            profiler.__exit__(*sys.exc_info())
        if trace is not None:
            profiler.export_chrome_trace(str(trace))
        return nest(_spans(profiler, problems))


@dataclass(frozen=True)
class Span:
    """A profiler event before nesting: ``start`` and ``stop`` in nanoseconds of one clock."""

    name: str
    start: int
    stop: int
    thread: int
    shapes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()


def _spans(profiler: Any, problems: list[str]) -> list[Span]:
    results = getattr(profiler, "kineto_results", None)
    found = list(results.events()) if results is not None else []
    spans = []
    for event in found:
        if event.is_async() or "CPU" not in str(event.device_type()):
            continue
        if hasattr(event, "start_ns"):
            start, length = event.start_ns(), event.duration_ns()
        else:  # before 2.4 the profiler counted in microseconds
            start, length = event.start_us() * 1000, event.duration_us() * 1000
        spans.append(
            Span(
                event.name(),
                start,
                start + length,
                event.start_thread_id(),
                _shapes(event.shapes()),
                tuple(event.dtypes()) if hasattr(event, "dtypes") else (),
            )
        )
    if spans and not any(span.dtypes for span in spans):
        problems.append("this torch's profiler does not record data types")
    return spans


def _shapes(shapes: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Shapes of tensor arguments; lists of tensors, which come as lists of shapes, are left empty."""
    return tuple(tuple(shape) if all(isinstance(size, int) for size in shape) else () for shape in shapes)


def nest(spans: Sequence[Span]) -> tuple[Event, ...]:
    """Turn spans into a tree with self times, keeping what lies inside a ``ROOT`` on its thread.

    Other threads are left out: they work inside an operator of the main thread, whose time covers theirs.
    """
    threads = {span.thread for span in spans if span.name == ROOT}
    ordered = sorted((span for span in spans if span.thread in threads), key=lambda span: (span.start, -span.stop))
    kept: list[tuple[Span, int]] = []
    own: list[int] = []
    stack: list[int] = []
    for span in ordered:
        while stack and span.start >= kept[stack[-1]][0].stop:
            stack.pop()
        if not stack and span.name != ROOT:
            continue
        parent = stack[-1] if stack else -1
        length = span.stop - span.start
        if parent >= 0:
            # Clocks are read a little apart, so a child may end just after its parent.
            length = min(span.stop, kept[parent][0].stop) - span.start
            own[parent] -= length
        stack.append(len(kept))
        kept.append((span, parent))
        own.append(length)
    return tuple(
        Event(span.name, max(nanoseconds, 0) / 1e9, parent, span.shapes, span.dtypes)
        for (span, parent), nanoseconds in zip(kept, own)
    )


@contextlib.contextmanager
def _verbose_onednn(problems: list[str]) -> Iterator[str]:
    """Switch oneDNN's verbose mode on; yields where the log comes from."""
    from torch.backends import mkldnn

    preset = any(
        os.environ.get(name, "0") not in ("", "0", "none")
        for name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")
    )
    with contextlib.ExitStack() as stack:
        source = "environment" if preset else "none"
        if not mkldnn.is_available():
            problems.append("this PyTorch build has no oneDNN")
        elif not preset:
            try:
                stack.enter_context(mkldnn.verbose(mkldnn.VERBOSE_ON))
                source = "runtime switch"
            except (AttributeError, AssertionError, RuntimeError):
                problems.append(
                    "this PyTorch build cannot switch oneDNN's verbose mode on: set ONEDNN_VERBOSE=1 "
                    "before the process starts"
                )
        yield source


@contextlib.contextmanager
def _verbose_mkl(problems: list[str]) -> Iterator[bool]:
    """Switch MKL's verbose mode on; yields whether that worked (``False`` in builds without MKL)."""
    import torch

    with contextlib.ExitStack() as stack:
        speaking = False
        if torch.backends.mkl.is_available():
            try:
                stack.enter_context(torch.backends.mkl.verbose(torch.backends.mkl.VERBOSE_ON))
                speaking = True
            except (AttributeError, AssertionError, RuntimeError):
                problems.append("this PyTorch build cannot switch MKL's verbose mode on")
        yield speaking


@contextlib.contextmanager
def captured(problems: list[str]) -> Iterator[Callable[[], str]]:
    """Send file descriptors 1 and 2 to a file; the yielded function returns what was written so far.

    The libraries write through C's stdio, whose buffer Python does not know: it is flushed on both sides.
    """
    with tempfile.TemporaryFile() as file, contextlib.ExitStack() as stack:
        _flush()
        for descriptor in (1, 2):
            try:
                saved = os.dup(descriptor)
            except OSError:
                problems.append(f"file descriptor {descriptor} is closed, so nothing could be captured there")
                continue
            os.dup2(file.fileno(), descriptor)
            stack.callback(os.close, saved)
            stack.callback(os.dup2, saved, descriptor)

        def written() -> str:
            _flush()
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), size, 0).decode("utf-8", "replace")

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
        ctypes.CDLL(None).fflush(None)


def blas_name() -> str:
    """Name the BLAS behind this torch: ``mkl 2024.2``, ``openblas 0.3.29 neoversen2`` …

    ``torch.__config__`` names the kind; for OpenBLAS the loaded library tells its version and core. The
    copies that NumPy and SciPy bring along are not torch's.
    """
    import torch

    config = torch.__config__.show()
    mkl = re.search(r"oneAPI Math Kernel Library Version ([\d.]+)|Math Kernel Library Version ([\d.]+)", config)
    info = re.search(r"BLAS_INFO=(\w+)", config)
    kind = info.group(1).lower() if info else ("mkl" if mkl else "unknown")
    if kind == "mkl":
        return f"mkl {next(filter(None, mkl.groups()))}" if mkl else "mkl"
    try:
        from threadpoolctl import threadpool_info

        libraries = threadpool_info()
    except Exception:  # a library that threadpoolctl cannot read must not end the run
        libraries = []
    for library in libraries:
        if library.get("user_api") != "blas":
            continue
        folder = Path(library.get("filepath", "")).parent.name
        if folder in ("numpy.libs", "scipy.libs", "numpy", "scipy"):
            continue
        words = (library.get("internal_api"), library.get("version"), library.get("architecture"))
        return " ".join(str(word).lower() for word in words if word)
    return {"open": "openblas"}.get(kind, kind)


def calls_sbgemm(library: Path | None = None) -> bool | None:
    """Whether torch gives bf16 products to its BLAS; ``None`` with MKL, which says so itself, or if it cannot be told.

    Where its build found ``sbgemm_`` in the BLAS (``BLAS_HAS_SBGEMM``), ``at::native::cpublas::gemm`` calls that for
    every bf16 product, and ``libtorch_cpu.so`` names it among its symbols, be OpenBLAS linked in or loaded. Where it
    did not, plain loops of ATen compute them.
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
    """The version of oneDNN that torch was built with, empty where it has none."""
    import torch

    found = re.search(r"(?:MKL-DNN|oneDNN) v([\d.]+)", torch.__config__.show())
    return found.group(1) if found else ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

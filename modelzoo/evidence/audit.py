"""Observe what runs: by the logs of oneDNN and MKL, by torch's profiler on an accelerator, by the memory of tensors.

What libraries print is captured at the level of file descriptors.

A product in numpy, in a function of a C++ extension, in another thread or in another process calls no operator that can
be observed. But its result comes back as a tensor whose memory no operator has written, and which did not exist before
the pass (``Provenance``).
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import gc
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from modelzoo.evidence.flops import Run, is_view
from modelzoo.evidence.kernel_names import base_name, operator_class
from modelzoo.evidence.logs import parse_onednn
from modelzoo.evidence.precision import DeviceKernel
from modelzoo.machine.installation import loaded_libraries, parse_torch_config
from modelzoo.records.evidence import LogSource
from modelzoo.workload.nested import tensors_in

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
    with contextlib.suppress(Exception):  # a library that threadpoolctl cannot read must not end the run
        for each in loaded_libraries():
            if each.api == "blas" and each.owner not in ("numpy", "scipy"):
                return " ".join(value.lower() for value in (each.kind, each.version, each.architecture) if value)
    return {"open": "openblas"}.get(kind, kind)


def onednn_version() -> str:
    """Return the version of oneDNN that torch was built with; empty without oneDNN."""
    import torch

    return parse_torch_config(torch.__config__.show()).onednn or ""


_EMPTY = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Operators whose outputs have no values yet."""
_SAMPLED = 4096
"""Numbers of an operand, evenly apart, that are looked at."""


class Provenance:
    """Follows the memory of tensors through one pass: all that exists when it is created is known.

    Memory that was freed is remembered, so that a tensor that gets the same address later is another one.

    Args:
        module: the ``torch.nn.Module`` that runs; the weights of scripted ones are no Python objects otherwise.
    """

    def __init__(self, module: Any) -> None:
        import torch

        self.foreign = 0
        """How many floating-point numbers were read that no operator computed."""
        self._read_numbers = self._subnormal_numbers = 0.0
        self._known: dict[int, object] = {}
        self._changed: dict[Any, list[tuple[int, str]]] = {}
        gc.unfreeze()  # frozen objects are not listed, and instances freeze their models and inputs
        for each in gc.get_objects():
            if issubclass(type(each), torch.Tensor):
                self._know(each)
        for each in (*module.parameters(), *module.buffers()) if module is not None else ():
            self._know(each)

    def following(self, run: Run) -> Run:
        """Return what calls each operator by ``run``, and notes what it reads and writes."""

        def noting(name: str, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
            if is_view(name):
                return run(name, operator, args, named)  # no number is read or written
            self._read(operator, args, named)
            for each in tensors_in([args, named]) if operator_class(name) is not None else ():
                self._count_subnormal(each)
            output = run(name, operator, args, named)
            outputs = [] if base_name(name) in _EMPTY else tensors_in(output)
            for each in (*outputs, *self._written(operator, args, named)):
                self._know(each)
            return output

        return noting

    @property
    def subnormal(self) -> float:
        """The share of subnormal numbers in the operands of products, by samples."""
        return self._subnormal_numbers / self._read_numbers if self._read_numbers else 0.0

    def _count_subnormal(self, tensor: Any) -> None:
        import torch

        if not _has_memory(tensor) or tensor.dtype not in (torch.float32, torch.float64, torch.bfloat16):
            return  # fp16 is converted to fp32, in which its numbers are normal
        total = tensor.untyped_storage().nbytes() // tensor.element_size()
        if count := min(total, _SAMPLED):
            sample = tensor.detach().as_strided((count,), (total // count,), 0)
            self._read_numbers += total
            # If the CPU takes them for zero, they are equal to it.
            is_subnormal = (sample != 0) & (sample.abs() < torch.finfo(tensor.dtype).tiny)
            self._subnormal_numbers += total * is_subnormal.float().mean().item()

    def _read(self, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Note what an operator is about to read."""
        written = self._written(operator, args, named)
        for each in tensors_in([args, named]):
            if any(each is other for other in written) or not _has_memory(each):
                continue
            storage = each.untyped_storage()
            if storage._cdata not in self._known:
                self.foreign += storage.nbytes() // each.element_size() if each.is_floating_point() else 0
                self._know(each)

    def _know(self, tensor: Any) -> None:
        from torch.multiprocessing.reductions import StorageWeakRef

        if _has_memory(tensor):
            storage = tensor.untyped_storage()
            self._known.setdefault(storage._cdata, StorageWeakRef(storage))

    def _written(self, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
        """The tensors that an operator changes, by its schema."""
        if operator not in self._changed:
            arguments = getattr(getattr(operator, "_schema", None), "arguments", ())
            self._changed[operator] = [
                (place, each.name)
                for place, each in enumerate(arguments)
                if each.alias_info is not None and each.alias_info.is_write
            ]
        changed = self._changed[operator]
        return tensors_in([args[n] if n < len(args) else named.get(name) for n, name in changed]) if changed else []


def _has_memory(tensor: Any) -> bool:
    """Whether it is a plain tensor with values on the CPU."""
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return tensor.layout is torch.strided and tensor.device.type == "cpu"

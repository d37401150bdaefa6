"""Find, check and select the device of a setting.

Accelerators are used through ``torch.accelerator`` if it stands for the device in question, and otherwise through the
device's own module (``torch.cuda``, ``torch.npu`` …). What a device cannot do, such as timing events, is tried out
once, and recorded."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from modelzoo.engines.protocol import Observed, Unavailable
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.records.accelerator import Accelerator
from modelzoo.records.evidence import KernelDigest

_MEMORY = re.compile(r"out of memory|can't allocate memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
_LOST = re.compile(
    r"(CUDA|NPU|XPU|ACL|HIP|SYCL) (driver )?error|device-side assert|AcceleratorError|UR_RESULT_ERROR|device lost"
    r"|fallen off the bus|uncorrectable|CUDNN_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)|CUBLAS_STATUS_EXECUTION_FAILED",
    re.IGNORECASE,
)
_CAPTURE = re.compile(r"captur", re.IGNORECASE)
_SIZE = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")


def device_problem(error: BaseException, device: str) -> EnvironmentProblem | None:
    """Return what a failed allocation or a failed device means for the user; ``None`` for any other error.

    Args:
        error: what a call raised.
        device: ``cpu``, ``cuda:1`` ….
    """
    text = str(error)
    if _MEMORY.search(text):
        size = _SIZE.search(text)
        wanted = f" ({size[1]} more were needed)" if size else ""
        return EnvironmentProblem(f"out of memory on {device}{wanted}; use a smaller --batch, or free the device")
    # A graph that cannot be captured raises such errors too, and says nothing about the device.
    if device != "cpu" and _LOST.search(text) and not _CAPTURE.search(text):
        reason = first_line(text)
        return EnvironmentProblem(f"{device} failed while the model ran: {reason}; check the driver's log (dmesg)")
    return None


def first_line(text: str) -> str:
    """The first line of ``text`` that is not empty: what a driver says, before torch's advice."""
    return next((line.strip().rstrip(".") for line in text.splitlines() if line.strip()), "no reason given")


TIMED_EVENTS = "timed events"
MEMORY_FIGURES = "memory figures"
DRIVER_FILE = Path("/proc/driver/nvidia/version")


class DeviceKind(msgspec.Struct, frozen=True):
    """A kind of accelerator; a new one is one entry of ``KINDS``.

    Attributes:
        name: what ``--device`` calls it, and torch's name of it.
        check: what to do if no such device is found.
        plugin: the package that adds it to torch; empty if it is part of torch.
    """

    name: str
    check: str
    plugin: str = ""


KINDS = {
    kind.name: kind
    for kind in (
        DeviceKind("cuda", "check the driver with nvidia-smi"),
        DeviceKind("npu", "check the driver with npu-smi info", plugin="torch_npu"),
        DeviceKind("xpu", "check the driver with xpu-smi discovery"),
    )
}


class TorchDevice:
    """An accelerator of this process; an ``AsynchronousDevice``.

    Args:
        kind: its kind.
        index: its number; ``None``: the current device.

    Raises:
        EnvironmentProblem: this torch does not support it, or this machine has none.
    """

    def __init__(self, kind: DeviceKind, index: int | None) -> None:
        import torch

        self._torch, self._kind = torch, kind
        self._module = _module(torch, kind)
        self._generic = _generic(torch, kind)
        _require_available(torch, self._generic or self._module, kind)
        count = int((self._generic or self._module).device_count())
        if index is not None and index >= count:
            counted = f"1 {kind.name} device" if count == 1 else f"{count} {kind.name} devices"
            raise EnvironmentProblem(
                f"--device {kind.name}:{index}: this machine has {counted}; the first is {kind.name}:0"
            )
        self.kind = kind.name
        self.index = int(self._module.current_device()) if index is None else index
        self.timed_events = False
        self._new_event: Callable[..., Any] = self._module.Event

    def select(self) -> None:
        """Make it the current device, so that events and synchronization refer to it, and try out what it can do."""
        if self._generic is None:
            self._module.set_device(self.index)
        else:
            self._generic.set_device_index(self.index)
        for factory in self._event_factories():
            if _times(factory, self.synchronize):
                self._new_event, self.timed_events = factory, True
                return

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        """Create an event of this device."""
        return self._new_event(enable_timing=enable_timing)

    def synchronize(self) -> None:
        """Wait until the device has done everything that was issued."""
        (self._generic or self._module).synchronize()

    def reset_peak_memory(self) -> None:
        """Let ``peak_memory`` begin anew."""
        with suppress(AttributeError, RuntimeError, NotImplementedError):
            self._module.reset_peak_memory_stats()

    def peak_memory(self) -> int | None:
        """The most bytes that tensors have occupied since ``reset_peak_memory``; ``None`` if torch cannot tell."""
        with suppress(AttributeError, RuntimeError, NotImplementedError):
            return int(self._module.max_memory_allocated())
        return None

    def describe(self) -> Accelerator:
        """What the device is, for the record; call it after ``select``."""
        properties = _asked(self._module, "get_device_properties", self.index)
        capability = _asked(self._module, "get_device_capability", self.index)
        memory = getattr(properties, "total_memory", None)
        lacks = [] if self.timed_events else [TIMED_EVENTS]
        lacks += [] if self.peak_memory() is not None else [MEMORY_FIGURES]
        return Accelerator(
            kind=self._kind.name,
            index=self.index,
            name=str(_asked(self._module, "get_device_name", self.index) or f"unnamed {self._kind.name} device"),
            capability=".".join(map(str, capability)) if isinstance(capability, tuple) else None,
            driver=_nvidia_driver() if self._kind.name == "cuda" else None,
            runtime=_runtime(self._torch, self._kind.name),
            memory=int(memory) if memory is not None else None,
            interface="torch.accelerator" if self._generic is not None else f"torch.{self._kind.name}",
            lacks=tuple(lacks),
        )

    def identifier(self) -> str | None:
        """The device's UUID, which the sensors know it by, as ``GPU-…``; ``None`` if torch does not tell it."""
        uuid = getattr(_asked(self._module, "get_device_properties", self.index), "uuid", None)
        return None if uuid is None else f"GPU-{uuid}"

    def _event_factories(self) -> list[Callable[..., Any]]:
        """The ways to create an event, the preferred one first."""
        found: list[Callable[..., Any]] = []
        if self._generic is not None:
            name, event = f"{self._kind.name}:{self.index}", self._torch.Event
            found.append(lambda *, enable_timing: event(device=name, enable_timing=enable_timing))
        if hasattr(self._module, "Event"):
            found.append(self._module.Event)
        return found


def check_device(name: str) -> None:
    """Check that this torch and this machine have the device ``name`` (``cpu``, ``cuda``, ``npu:1`` …).

    Raises:
        EnvironmentProblem: this torch does not support the device, or this machine has none.
        UsageError: there is no such kind of device.
    """
    _find(name)


def select_device(name: str) -> TorchDevice | None:
    """Make the device ``name`` current; return it, or ``None`` for the CPU. Raises as ``check_device``."""
    device = _find(name)
    if device is not None:
        device.select()
    return device


def _find(name: str) -> TorchDevice | None:
    if name == "cpu":
        return None
    kind, colon, index = name.partition(":")
    if kind == "cpu":
        raise UsageError(f"--device {name}: the CPU has no index; use --device cpu")
    if kind not in KINDS:
        raise UsageError(f"--device {name}: there is no such kind of device; use cpu, {', '.join(KINDS)}")
    if colon and not index.isdigit():
        raise UsageError(f"--device {name}: the index must be a number, as in {kind}:0")
    return TorchDevice(KINDS[kind], int(index) if colon else None)


def _module(torch: ModuleType, kind: DeviceKind) -> Any:
    """torch's module for a kind of device, after the package that adds it has been imported."""
    if kind.plugin:
        try:
            importlib.import_module(kind.plugin)
        except ModuleNotFoundError as error:
            raise EnvironmentProblem(
                f"--device {kind.name}: {kind.plugin} is not installed: pip install {kind.plugin}, of the version of "
                f"torch ({torch.__version__})"
            ) from error
        except Exception as error:  # its driver's libraries are missing
            reason = str(error).strip().partition("\n")[0]
            raise EnvironmentProblem(
                f"--device {kind.name}: {kind.plugin} cannot be loaded ({type(error).__name__}: {reason}): install the "
                "device's driver and its libraries, and load their environment"
            ) from error
    module = getattr(torch, kind.name, None)
    if module is None or not hasattr(module, "is_available"):
        raise EnvironmentProblem(f"--device {kind.name}: torch {torch.__version__} does not support it")
    return module


def _generic(torch: ModuleType, kind: DeviceKind) -> Any:
    """``torch.accelerator`` if it stands for ``kind``; it stands for one kind of device only."""
    if not torch.accelerator.is_available():
        return None
    current = torch.accelerator.current_accelerator()
    return torch.accelerator if current is not None and current.type == kind.name else None


def _require_available(torch: ModuleType, interface: Any, kind: DeviceKind) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if interface.is_available():
            return
    reason = str(said[0].message).partition("\n")[0].partition("(Triggered")[0].strip(" .") if said else ""
    built = getattr(torch.version, kind.name, kind.name) if kind.name in ("cuda", "xpu") else kind.name
    if built is None:
        reason = reason or f"torch {torch.__version__} was built without {kind.name}"
    raise EnvironmentProblem(
        f"--device {kind.name}: no {kind.name} device is available here{f' ({reason})' if reason else ''}; "
        f"{kind.check}, or use --device cpu"
    )


def _times(factory: Callable[..., Any], synchronize: Callable[[], None]) -> bool:
    """Whether two events made by ``factory`` tell the time between them."""
    try:
        first, last = factory(enable_timing=True), factory(enable_timing=True)
        first.record()
        last.record()
        synchronize()
        return float(first.elapsed_time(last)) >= 0
    except (RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError):
        return False


def _asked(module: Any, function: str, index: int) -> Any:
    """What a function of ``module`` says of device ``index``; ``None`` if the module has no such function."""
    with suppress(AttributeError, RuntimeError, NotImplementedError, TypeError):
        return getattr(module, function)(index)
    return None


def _nvidia_driver() -> str | None:
    """The version that the kernel module of NVIDIA's driver states in its first line."""
    with suppress(OSError):
        words = DRIVER_FILE.read_text(encoding="utf-8").partition("\n")[0].split()
        return next((word for word in words if word[:1].isdigit() and "." in word), None)
    return None


def _runtime(torch: ModuleType, kind: str) -> str | None:
    """The libraries that torch uses on this kind of device, such as ``CUDA 12.8, cuDNN 9.10.2``."""
    names = {"cuda": "CUDA", "npu": "CANN", "xpu": "SYCL"}
    version = getattr(torch.version, {"npu": "cann"}.get(kind, kind), None)
    found = [f"{names.get(kind, kind)} {version}"] if version else []
    if kind == "cuda":
        with suppress(AttributeError, RuntimeError):
            number = int(torch.backends.cudnn.version() or 0)
            # 8902 is 8.9.2; from version 9 on, 91002 is 9.10.2.
            major = 10_000 if number >= 90_000 else 1_000
            found += [f"cuDNN {number // major}.{number % major // 100}.{number % 100}"] if number else []
    return ", ".join(found) or None


def digest(run: Callable[[], Any], device: TorchDevice) -> Observed[KernelDigest]:
    """Say which kernels one call of ``run`` launches."""
    from modelzoo.evidence.device_attribution import device_digest
    from modelzoo.evidence.profiler import captured_output, run_device_profiled

    problems: list[str] = []
    with captured_output([]) as written:
        kernels = run_device_profiled(run, device.kind, device.synchronize, written, problems)
    found = device_digest(kernels)
    return found or Unavailable("; ".join(problems) or "no kernel that multiplies matrices ran on the device")

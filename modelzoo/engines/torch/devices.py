"""Find, check and select the device of a setting.

An accelerator is used through torch's module for its kind (``torch.cuda``, ``torch.npu``, ``torch.xpu``), which has
everything under the same names: ``torch.accelerator`` has neither events nor, before torch 2.9, memory figures. What a
device cannot do, such as timing events, is tried out once, and recorded.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from modelzoo.engines.protocol import Observed, Unavailable
from modelzoo.errors import EnvironmentProblem, UsageError, first_line
from modelzoo.records.equipment import Accelerator
from modelzoo.records.evidence import KernelDigest

_MEMORY = re.compile(r"out of memory|can't allocate memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED", re.IGNORECASE)
_LOST = re.compile(
    r"(CUDA|NPU|XPU|ACL|HIP|SYCL) (driver )?error|device-side assert|AcceleratorError|UR_RESULT_ERROR|device lost"
    r"|fallen off the bus|uncorrectable|CUDNN_STATUS_(EXECUTION_FAILED|INTERNAL_ERROR)|CUBLAS_STATUS_EXECUTION_FAILED",
    re.IGNORECASE,
)
_CAPTURE = re.compile(r"captur", re.IGNORECASE)
_SIZE = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")


def device_problem(error: Exception, device: str) -> EnvironmentProblem | None:
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
        return EnvironmentProblem(
            f"{device} failed while the model ran: {first_line(error)}; check the driver's log (dmesg)"
        )
    return None


TIMED_EVENTS = "timed events"
MEMORY_FIGURES = "memory figures"
DRIVER_FILE = Path("/proc/driver/nvidia/version")
KINDS = {"cuda": "nvidia-smi", "npu": "npu-smi info", "xpu": "xpu-smi discovery"}
"""The kinds of accelerators, as ``--device`` and torch name them, and what shows whether the driver works."""
PLUGINS = {"npu": "torch_npu"}
"""The package that adds a kind to torch, where it is not part of torch."""


class TorchDevice:
    """An accelerator of this process; an ``AsynchronousDevice``.

    Args:
        kind: one of ``KINDS``.
        index: its number; ``None``: the current device.

    Raises:
        EnvironmentProblem: this torch does not support it, or this machine has none.
    """

    def __init__(self, kind: str, index: int | None) -> None:
        import torch

        self._torch, self.kind = torch, kind
        self._module = _available(torch, kind)
        count = int(self._module.device_count())
        if index is not None and index >= count:
            counted = f"1 {kind} device" if count == 1 else f"{count} {kind} devices"
            raise EnvironmentProblem(f"--device {kind}:{index}: this machine has {counted}; the first is {kind}:0")
        self.index = int(self._module.current_device()) if index is None else index
        self.timed_events = False

    def select(self) -> None:
        """Make it the current device, so that events and synchronization refer to it, and try out what it can do."""
        self._module.set_device(self.index)
        with suppress(RuntimeError, NotImplementedError, TypeError, AttributeError, ValueError):
            first, last = self.Event(enable_timing=True), self.Event(enable_timing=True)
            first.record()
            last.record()
            self.synchronize()
            self.timed_events = float(first.elapsed_time(last)) >= 0

    def Event(self, *, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        """Create an event of this device."""
        return self._module.Event(enable_timing=enable_timing)

    def synchronize(self) -> None:
        """Wait until the device has done everything that was issued."""
        self._module.synchronize()

    def reset_peak_memory(self) -> None:
        """Let ``peak_memory`` begin anew."""
        with suppress(AttributeError, RuntimeError, NotImplementedError):
            self._module.reset_peak_memory_stats()

    def peak_memory(self) -> int | None:
        """The most bytes that tensors have occupied since ``reset_peak_memory``; ``None`` if torch cannot tell."""
        peak = _asked(self._module, "max_memory_allocated")
        return None if peak is None else int(peak)

    def describe(self) -> Accelerator:
        """What the device is, for the record; call it after ``select``."""
        properties = _asked(self._module, "get_device_properties", self.index)
        capability = _asked(self._module, "get_device_capability", self.index)
        memory = getattr(properties, "total_memory", None)
        driver = None
        if self.kind == "cuda":
            with suppress(OSError):  # the kernel module of NVIDIA's driver states its version in the first line
                words = DRIVER_FILE.read_text(encoding="utf-8").partition("\n")[0].split()
                driver = next((word for word in words if word[:1].isdigit() and "." in word), None)
        lacks = {TIMED_EVENTS: not self.timed_events, MEMORY_FIGURES: self.peak_memory() is None}
        return Accelerator(
            kind=self.kind,
            index=self.index,
            name=str(_asked(self._module, "get_device_name", self.index) or f"unnamed {self.kind} device"),
            capability=".".join(map(str, capability)) if isinstance(capability, tuple) else None,
            driver=driver,
            runtime=_runtime(self._torch, self.kind),
            memory=int(memory) if memory is not None else None,
            lacks=tuple(name for name, is_lacking in lacks.items() if is_lacking),
        )

    def identifier(self) -> str | None:
        """The device's UUID, which the sensors know it by, as ``GPU-…``; ``None`` if torch does not tell it."""
        uuid = getattr(_asked(self._module, "get_device_properties", self.index), "uuid", None)
        return None if uuid is None else f"GPU-{uuid}"


def check_device(name: str) -> TorchDevice | None:
    """Return the device ``name`` (``cuda``, ``npu:1`` …), which this torch and this machine have; ``None`` for ``cpu``.

    Raises:
        EnvironmentProblem: this torch does not support the device, or this machine has none.
        UsageError: there is no such kind of device.
    """
    if name == "cpu":
        return None
    kind, colon, index = name.partition(":")
    if kind == "cpu":
        raise UsageError(f"--device {name}: the CPU has no index; use --device cpu")
    if kind not in KINDS:
        raise UsageError(f"--device {name}: there is no such kind of device; use cpu, {', '.join(KINDS)}")
    if colon and not index.isdigit():
        raise UsageError(f"--device {name}: the index must be a number, as in {kind}:0")
    return TorchDevice(kind, int(index) if colon else None)


def select_device(name: str) -> TorchDevice | None:
    """Make the device ``name`` current; return it, or ``None`` for the CPU. Raises as ``check_device``."""
    device = check_device(name)
    if device is not None:
        device.select()
    return device


def _available(torch: ModuleType, kind: str) -> Any:
    """torch's module for a kind of device of which there is one, after the package that adds it has been imported."""
    plugin = PLUGINS.get(kind)
    if plugin is not None:
        try:
            importlib.import_module(plugin)
        except ModuleNotFoundError as error:
            raise EnvironmentProblem(
                f"--device {kind}: {plugin} is not installed: pip install {plugin}, of the version of torch "
                f"({torch.__version__})"
            ) from error
        except Exception as error:  # its driver's libraries are missing
            raise EnvironmentProblem(
                f"--device {kind}: {plugin} cannot be loaded ({type(error).__name__}: {first_line(error)}): "
                "install the device's driver and its libraries, and load their environment"
            ) from error
    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "is_available"):
        raise EnvironmentProblem(f"--device {kind}: torch {torch.__version__} does not support it")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if module.is_available():
            return module
    reason = str(said[0].message).partition("\n")[0].partition("(Triggered")[0].strip(" .") if said else ""
    if not reason and plugin is None and getattr(torch.version, kind, kind) is None:
        reason = f"torch {torch.__version__} was built without {kind}"
    raise EnvironmentProblem(
        f"--device {kind}: no {kind} device is available here{f' ({reason})' if reason else ''}; check the driver with "
        f"{KINDS[kind]}, or use --device cpu"
    )


def _asked(module: Any, function: str, *index: int) -> Any:
    """What a function of ``module`` says of device ``index``; ``None`` if the module has no such function."""
    with suppress(AttributeError, RuntimeError, NotImplementedError, TypeError):
        return getattr(module, function)(*index)
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


def digest(run: Callable[[], Any], device: TorchDevice | None) -> Observed[KernelDigest]:
    """Say which kernels one call of ``run`` runs, which takes little longer; ``None`` stands for the CPU."""
    from modelzoo.evidence.audit import captured_output, library_logs, run_device_profiled
    from modelzoo.evidence.logs import kernel_digest
    from modelzoo.evidence.precision import device_digest

    problems: list[str] = []
    if device is None:
        with library_logs(problems) as (written, _):
            run()
            found, nothing = kernel_digest(written()), "the logs of oneDNN and MKL name no kernel that ran"
    else:
        with captured_output([]) as written:
            kernels = run_device_profiled(run, device.kind, device.synchronize, written, problems)
        found, nothing = device_digest(kernels), "no kernel that multiplies matrices ran on the device"
    return found or Unavailable("; ".join(problems) or nothing)

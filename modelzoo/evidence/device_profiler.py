"""Run forward passes under torch's profiler and read which kernels an accelerator ran, and which operator did so."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Callable

from modelzoo.evidence.capture import captured_output
from modelzoo.evidence.device_attribution import DeviceKernel
from modelzoo.evidence.operators import PASS_EVENT

PROFILED = ("cuda", "xpu")
"""The devices whose kernels torch's own profiler records. torch_npu has a profiler of its own, which writes files."""


class NoDeviceProfileError(RuntimeError):
    """The profiler does not show which kernels ran on the device; the message says why, in one line."""


def run_device_profiled(
    call: Callable[[], object], iterations: int, kind: str, synchronize: Callable[[], None]
) -> tuple[DeviceKernel, ...]:
    """Run ``call`` ``iterations`` times under the profiler, and return every kernel that ran on the device.

    Args:
        call: one warmed-up forward pass.
        iterations: number of passes.
        kind: ``cuda``, ``npu`` or ``xpu``.
        synchronize: waits for the device.

    Raises:
        NoDeviceProfileError: there is no profiler for this device, or it recorded nothing.
    """
    if kind not in PROFILED:
        raise NoDeviceProfileError(f"torch's profiler does not record the kernels of {kind} devices")
    from torch.autograd.profiler import record_function

    problems: list[str] = []
    synchronize()
    with warnings.catch_warnings(), captured_output(problems):
        warnings.simplefilter("ignore")
        profiler = _profiler(kind)
        profiler.__enter__()
        try:
            for _ in range(iterations):
                with record_function(PASS_EVENT):
                    call()
            synchronize()
        finally:
            profiler.__exit__(*sys.exc_info())
    results = getattr(profiler, "kineto_results", None)
    kernels = device_kernels(results.events() if results is not None else ())
    if not kernels:
        raise NoDeviceProfileError(f"torch's profiler recorded no kernel on the {kind} device (is CUPTI installed?)")
    return kernels


def _profiler(kind: str) -> Any:
    import inspect

    from torch.autograd.profiler import profile

    # torch 2.4 replaced use_cuda by use_device.
    if "use_device" in inspect.signature(profile).parameters:
        return profile(use_device=kind, record_shapes=True)
    return profile(use_cuda=True, record_shapes=True)


def device_kernels(events: Any) -> tuple[DeviceKernel, ...]:
    """The kernels among the profiler's events, in their order, each with the operator that launched it."""
    listed = list(events)
    operators = {event.correlation_id(): event for event in listed if "CPU" in str(event.device_type())}
    found = []
    for event in listed:
        if "CPU" in str(event.device_type()) or _is_annotation(event):
            continue
        linked = event.linked_correlation_id()
        operator = operators.get(linked) if linked > 0 else None
        name = operator.name() if operator is not None else ""
        found.append(
            DeviceKernel(
                name=event.name(),
                seconds=_nanoseconds(event) / 1e9,
                operator=name if "::" in name and name != PASS_EVENT else "",
                shapes=_shapes(operator) if operator is not None else (),
                dtypes=tuple(operator.dtypes()) if operator is not None and hasattr(operator, "dtypes") else (),
            )
        )
    return tuple(found)


def _is_annotation(event: Any) -> bool:
    """Whether the event is a range of the host's that is shown on the device's time line."""
    if event.name() == PASS_EVENT:
        return True
    return bool(getattr(event, "is_user_annotation", lambda: False)())


def _nanoseconds(event: Any) -> int:
    # torch before 2.4 counts in microseconds.
    return int(event.duration_ns() if hasattr(event, "duration_ns") else event.duration_us() * 1000)


def _shapes(event: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(shape) if all(isinstance(size, int) for size in shape) else () for shape in event.shapes())

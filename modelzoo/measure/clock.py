"""Read the time of one call, on the host and on an accelerator.

On a CPU a call has ended when it returns. On an accelerator it has only been issued: with A = host
starts, B = host has issued everything, C = host after synchronize, and D, E = device events around
the work, latency is C - A (host) and E - D (device); B - A is issue time and never a latency.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Callable, Protocol

from modelzoo.errors import EnvironmentProblem
from modelzoo.records.timing import DEVICE, ISSUE, LATENCY


@dataclass(frozen=True)
class Sample:
    """One timed call, in seconds. ``issue`` and ``device`` are ``None`` on a CPU."""

    latency: float
    issue: float | None = None
    device: float | None = None

    def values(self) -> dict[str, float]:
        """What was timed, by the name of its series."""
        found = {LATENCY: self.latency}
        if self.issue is not None:
            found[ISSUE] = self.issue
        if self.device is not None:
            found[DEVICE] = self.device
        return found


class Clock(Protocol):
    """Times a call; what the call returned is dropped after the last time stamp."""

    def time(self, call: Callable[[], Any]) -> Sample: ...


class HostClock:
    """For work that is done when the call returns: the monotonic performance counter."""

    def time(self, call: Callable[[], Any]) -> Sample:
        start = perf_counter_ns()
        output = call()
        end = perf_counter_ns()
        del output  # freed after the second time stamp, not inside the next call
        return Sample((end - start) * 1e-9)


class DeviceClock:
    """For an accelerator: synchronize before the first time stamp and after the last.

    ``device`` is the module with ``Event`` and ``synchronize`` (``torch.cuda``, ``torch.npu``); its
    events must know ``enable_timing`` and ``elapsed_time`` (milliseconds).
    """

    def __init__(self, device: Any) -> None:
        self._device = device

    def time(self, call: Callable[[], Any]) -> Sample:
        first = self._device.Event(enable_timing=True)
        last = self._device.Event(enable_timing=True)
        self._device.synchronize()
        start = perf_counter_ns()
        first.record()
        output = call()
        last.record()
        issued = perf_counter_ns()
        self._device.synchronize()
        end = perf_counter_ns()
        del output
        return Sample((end - start) * 1e-9, issue=(issued - start) * 1e-9, device=first.elapsed_time(last) * 1e-3)


def for_device(name: str) -> Clock:
    """Return the clock for ``cpu``, ``cuda``, ``cuda:1``, ``npu`` …

    Raises:
        EnvironmentProblem: this torch has no such device, or none is there.
    """
    kind = name.split(":")[0]
    if name == "cpu":
        return HostClock()
    if kind == "cpu":
        raise EnvironmentProblem(f"--device {name}: the cpu has no number; use --device cpu")
    import torch

    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "is_available") or not hasattr(module, "Event"):
        raise EnvironmentProblem(f"--device {name}: this torch {torch.__version__} knows no device {kind!r}")
    if not module.is_available():
        raise EnvironmentProblem(
            f"--device {name}: no {kind} device is available here; check its driver, or use --device cpu"
        )
    index = name.partition(":")[2]
    if index and not (index.isdigit() and int(index) < module.device_count()):
        raise EnvironmentProblem(f"--device {name}: there are only {module.device_count()} {kind} devices")
    if index:
        module.set_device(int(index))
    return DeviceClock(module)

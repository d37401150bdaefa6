"""An asynchronous accelerator without hardware: a queue of work that a thread does, in simulated time.

Issuing work costs the host a little time; the work itself is done by the device's thread, later and in order. The
thread does only what somebody waits for, which is as late as a real device may be: until ``synchronize`` or
``Event.synchronize``, outputs are not there, and reading the time between two events raises, as in torch. Host and
device share one simulated clock, so the tests depend on no real time.

``SimulatedDevice`` is the device. ``cuda_module`` and ``npu_module`` show it under the names of ``torch.cuda`` and of
``torch_npu.npu``.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from modelzoo.records.equipment import Accelerator

MILLISECOND = 1_000_000
"""In ns."""
ISSUE_NS = 1_000
"""The host's time to issue one piece of work."""
WORK_NS = 500_000
"""The device's time to do it: far longer."""
CREATE_NS = 20_000
"""The host's time to create an event, which it does when the event is recorded for the first time, as CUDA does."""


class LostDeviceError(RuntimeError):
    """What torch raises when a device is gone; the same text as that of a GPU that has fallen off the bus."""


class SimulatedEvent:
    """A point in the device's queue."""

    def __init__(self, device: SimulatedDevice, enable_timing: bool) -> None:
        self._device, self._enable_timing = device, enable_timing
        self.completed_at: int | None = None
        self._exists = False

    def record(self, stream: object = None) -> None:
        """Put it into the queue; it completes when all earlier work has been done."""
        self.completed_at = None
        if not self._exists:
            self._device.now += CREATE_NS
            self._exists = True
        self._device.put(0, self._complete)

    def _complete(self) -> None:
        self.completed_at = self._device.finished_at

    def query(self) -> bool:
        return self.completed_at is not None

    def synchronize(self) -> None:
        self._device.wait()

    def elapsed_time(self, other: SimulatedEvent) -> float:
        """Milliseconds between two completed events."""
        if not (self._enable_timing and other._enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.completed_at is None or other.completed_at is None:
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return (other.completed_at - self.completed_at) * 1e-6


class SimulatedDevice:
    """The device, which has the interface of ``modelzoo.engines.protocol.Accelerator``.

    Attributes:
        now: the host's simulated time in ns.
        finished_at: when the device finished what it has done so far, in ns.
        synchronizations: how often the host has waited for the device.
        lost_after: number of pieces of work after which the device is lost; ``None``: never.
        memory: bytes of memory; ``allocate`` raises as torch does if it is not enough.
    """

    timed_events = True
    kind, index = "cuda", 0

    def __init__(self, *, lost_after: int | None = None, memory: int = 2**30) -> None:
        self.now = self.finished_at = 0
        self.synchronizations = 0
        self.lost_after, self.memory, self.allocated, self.peak = lost_after, memory, 0, 0
        self._issued = 0
        self._queue: queue.Queue[tuple[int, int, Callable[[], None]]] = queue.Queue()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._work, daemon=True).start()

    def stamp(self) -> int:
        """The host's time, for ``perf_counter_ns``."""
        return self.now

    def Event(self, enable_timing: bool = False) -> SimulatedEvent:  # noqa: N802 - torch's name
        """Create an event."""
        return SimulatedEvent(self, enable_timing)

    def launch(self, work: Callable[[], None] = lambda: None, *, issue: int = ISSUE_NS, takes: int = WORK_NS) -> None:
        """Issue ``work``, which costs the host ``issue`` ns and the device ``takes`` ns."""
        self._issued += 1
        if self.lost_after is not None and self._issued > self.lost_after:
            raise LostDeviceError("CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronous")
        self.now += issue
        self.put(takes, work)

    def put(self, takes: int, work: Callable[[], None]) -> None:
        """Append to the queue; nothing is done before somebody waits."""
        self._queue.put((self.now, takes, work))

    def wait(self) -> None:
        """Let the thread do everything that was issued, and wait for it: the host's time moves on."""
        self.synchronizations += 1
        for _ in range(self._queue.qsize()):
            self._wanted.release()
        self._queue.join()
        self.now = max(self.now, self.finished_at)

    def synchronize(self, device: object = None) -> None:
        self.wait()

    def on_host(self, milliseconds: int, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """``call`` as a stage that keeps the host busy for so long."""

        def run(value: Any) -> Any:
            self.now += milliseconds * MILLISECOND
            return call(value)

        return run

    def launching(self, milliseconds: int, call: Callable[[Any], Any], issue: int = 1) -> Callable[[Any], Any]:
        """``call`` as a stage that keeps the device busy for so long, and the host for ``issue`` ms."""

        def run(value: Any) -> Any:
            self.launch(issue=issue * MILLISECOND, takes=milliseconds * MILLISECOND)
            return call(value)

        return run

    def identifier(self) -> str:
        """A UUID, which no management library knows."""
        return "GPU-simulated"

    def describe(self) -> Accelerator:
        return Accelerator(self.kind, self.index, "Simulated GPU", "9.0", "1.0", "none", self.memory)

    def reset_peak_memory(self) -> None:
        """Let ``peak_memory`` begin anew."""
        self.peak = self.allocated

    def peak_memory(self) -> int:
        return self.peak

    def allocate(self, size: int) -> None:
        """Occupy memory; raises what torch raises if there is too little."""
        if self.allocated + size > self.memory:
            raise RuntimeError(
                f"CUDA out of memory. Tried to allocate {size / 2**30:.2f} GiB. GPU 0 has a total capacity of "
                f"{self.memory / 2**30:.2f} GiB of which 0 bytes is free.\nSee documentation for Memory Management"
            )
        self.allocated += size
        self.peak = max(self.peak, self.allocated)

    def _work(self) -> None:
        while True:
            self._wanted.acquire()
            issued_at, takes, work = self._queue.get()
            self.finished_at = max(self.finished_at, issued_at) + takes
            work()
            self._queue.task_done()


class OnDevice:
    """A tensor of the simulated device: copies take 1 ms, and a copy to the host waits for it."""

    def __init__(self, device: SimulatedDevice, value: Any = None) -> None:
        self.device, self.value = device, value

    def to(self, name: str) -> OnDevice:
        """Copy it to the device."""
        self.device.launch(takes=MILLISECOND)
        return self

    def cpu(self) -> OnDevice:
        """Copy it to the host."""
        self.device.launch(takes=MILLISECOND)
        self.device.wait()
        return self


def cuda_module(device: SimulatedDevice, *, count: int = 2, available: bool = True) -> SimpleNamespace:
    """The device under the names of ``torch.cuda``; ``chosen`` lists the devices that were made current."""
    chosen: list[int] = []
    properties = SimpleNamespace(total_memory=device.memory, uuid="01234567-89ab-cdef-0123-456789abcdef")
    return SimpleNamespace(
        Event=device.Event,
        synchronize=device.synchronize,
        is_available=lambda: available,
        device_count=lambda: count,
        current_device=lambda: chosen[-1] if chosen else 0,
        set_device=chosen.append,
        chosen=chosen,
        get_device_name=lambda index: f"Simulated GPU {index}",
        get_device_capability=lambda index: (9, 0),
        get_device_properties=lambda index: properties,
        max_memory_allocated=device.peak_memory,
        reset_peak_memory_stats=device.reset_peak_memory,
    )


def npu_module(device: SimulatedDevice, *, available: bool = True) -> SimpleNamespace:
    """The device under the names of ``torch_npu.npu``, which has no compute capability and no UUID."""
    module = cuda_module(device, count=1, available=available)
    del module.get_device_capability
    module.get_device_name = lambda index: "Ascend910B"
    module.get_device_properties = lambda index: SimpleNamespace(name="Ascend910B", total_memory=device.memory)
    return module

"""Instances: worker processes that serve batches on CPUs of their own. What they answer.

All times are seconds of ``time.monotonic``, one clock for all processes of a machine since it was started.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from modelzoo.records.machine import CpuUsage, Placement
from modelzoo.records.run_report import Observed, RunReport


class LatencyBound(msgspec.Struct, frozen=True):
    """A percentile of the latencies must not be over a limit.

    Attributes:
        percentile: over 0 and under 100: 99 stands for p99.
        seconds: the limit.
    """

    percentile: Annotated[float, msgspec.Meta(gt=0, lt=100)]
    seconds: Annotated[float, msgspec.Meta(gt=1e-12, lt=1e9)]

    @property
    def text(self) -> str:
        """As it is written on the command line: ``p99=50ms``.

        >>> LatencyBound(99.9, 0.0125).text
        'p99.9=12.5ms'
        """
        return f"{self.name}={self.seconds * 1e3:.10g}ms"

    @property
    def name(self) -> str:
        """Of the percentile: ``p99``."""
        return f"p{self.percentile:.10g}"


class InstanceReport(msgspec.Struct, frozen=True):
    """What an instance reports at its end.

    Attributes:
        placement: where it ran, as it was at the end.
        observed: what was looked at in the end: the canary, and the kernels of a pass.
        peak_memory: the most bytes that it occupied while it served.
        usage: how busy the CPUs of its affinity mask were from its first command on; ``own_cores`` is its own work.
        import_seconds: time to import the engine and the workload's libraries.
        build_seconds: time to build the model and load its weights.
        cold_start: seconds of the very first batch.
        warmup: seconds of the batches of its warm-up, of the setting's batch size.
        context: what a run reports, without timing: the setting, the machine, the libraries …; only from an instance
            that was asked for extras.
    """

    placement: Placement
    observed: Observed
    peak_memory: int
    usage: CpuUsage
    import_seconds: float
    build_seconds: float
    cold_start: float
    warmup: tuple[float, ...]
    context: RunReport | None = None


class Ready(msgspec.Struct, frozen=True):
    """An instance has loaded its model, is warmed up and waits to be called, without using a CPU.

    Attributes:
        placement: where it runs.
        times: the median seconds of the last batches of its warm-up, by batch size; the setting's comes first.
    """

    placement: Placement
    times: dict[int, float]


class Window(msgspec.Struct, frozen=True):
    """Batches that were run back to back, in order.

    Attributes:
        started: of each batch.
        ended: of each batch.
        memory: bytes that the process occupies after the last one; ``None`` if the system does not say.
    """

    started: tuple[float, ...]
    ended: tuple[float, ...]
    memory: int | None = None


class BatchDone(msgspec.Struct, frozen=True):
    """When the forward pass of a batch began and ended."""

    started: float
    ended: float

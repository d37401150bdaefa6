"""Instances in virtual time."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

from modelzoo.serve.generator import Reply


class VirtualServer:
    """Instances that take a known time for each batch. Its clock stands still except in ``wait``."""

    def __init__(self, instances: int, service: Callable[[int], float], fixed_size: int | None = None) -> None:
        self.instances, self._service, self.fixed_size = instances, service, fixed_size
        self._now = 0.0
        self._running: list[tuple[float, int, float]] = []

    def now(self) -> float:
        return self._now

    def start(self, instance: int, size: int) -> None:
        heapq.heappush(self._running, (self._now + self._service(size), instance, self._now))

    def wait(self, until: float) -> Sequence[Reply]:
        """Move the clock to the next reply or to ``until``."""
        if not self._running or self._running[0][0] > until:
            if math.isinf(until):
                raise RuntimeError("nothing runs, and nothing is due")
            self._now = max(self._now, until)
            return ()
        self._now = max(self._now, self._running[0][0])
        found = []
        while self._running and self._running[0][0] <= self._now:
            ended, instance, started = heapq.heappop(self._running)
            found.append(Reply(instance, started, ended))
        return found

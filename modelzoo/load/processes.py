"""Instances in processes of their own, as the generator's loop sees them."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Sequence
from typing import Optional

from modelzoo.errors import ModelzooError
from modelzoo.load.server import Reply
from modelzoo.measure.instances import Instance
from modelzoo.records.instance import BatchDone, RunBatch

SPIN = 2e-4
"""Seconds before a deadline from which on the loop polls instead of sleeping, if it has a core of its own: the timer
slack of Linux is 50 µs, and waking up takes about as long again (``man 2 prctl``, PR_SET_TIMERSLACK)."""


class ProcessServer:
    """Running instances that are ready. It neither starts nor ends them.

    Args:
        instances: by their numbers.
        fixed_size: as in ``Server``.
        spins: whether to poll before deadlines.
        wake: a file descriptor that also ends ``wait`` when it is readable; the caller reads it.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        fixed_size: Optional[int],
        *,
        spins: bool,
        wake: Optional[int] = None,
    ) -> None:
        self._instances, self._fixed_size, self._spin = tuple(instances), fixed_size, SPIN if spins else 0.0
        self._by_descriptor = {each.fileno(): number for number, each in enumerate(instances)}
        self._wake = () if wake is None else (wake,)
        self._watched = [*self._by_descriptor, *self._wake]

    @property
    def instances(self) -> int:
        return len(self._instances)

    @property
    def fixed_size(self) -> Optional[int]:
        return self._fixed_size

    def now(self) -> float:
        return time.monotonic()

    def start(self, instance: int, size: int) -> None:
        self._instances[instance].send(RunBatch(size))

    def wait(self, until: float) -> Sequence[Reply]:
        while True:
            left = until - time.monotonic()
            timeout = None if math.isinf(left) else max(0.0, left - self._spin)
            ready = select.select(self._watched, (), (), timeout)[0]
            if ready:
                return [reply for each in ready if each in self._by_descriptor for reply in self._read(each)]
            if time.monotonic() >= until:
                return ()

    def _read(self, descriptor: int) -> list[Reply]:
        number = self._by_descriptor[descriptor]
        try:
            replies = self._instances[number].replies()
        except ModelzooError as error:
            self._watched.remove(descriptor)
            return [Reply(number, 0.0, 0.0, str(error))]
        return [Reply(number, each.started, each.ended) for each in replies if isinstance(each, BatchDone)]

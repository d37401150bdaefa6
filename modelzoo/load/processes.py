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


class ProcessServer:
    """Running instances that are ready. It neither starts nor ends them.

    Args:
        instances: by their numbers.
        fixed_size: as in ``Server``.
        polls: never sleep. That is for a loop that has a core of its own: a virtual CPU that has gone to sleep wakes up
            milliseconds late, and so would the loop and any other thread on it.
        wake: a file descriptor that also ends ``wait`` when it is readable; the caller reads it.
    """

    def __init__(
        self,
        instances: Sequence[Instance],
        fixed_size: Optional[int],
        *,
        polls: bool,
        wake: Optional[int] = None,
    ) -> None:
        self._instances, self._fixed_size, self._polls = tuple(instances), fixed_size, polls
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
            timeout = 0.0 if self._polls else None if math.isinf(left) else max(0.0, left)
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

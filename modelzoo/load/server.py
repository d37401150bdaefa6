"""What the load is put on: instances that each answer one batch at a time, and the clock that they live by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional, Protocol


class Reply(NamedTuple):
    """One instance has finished its batch.

    Attributes:
        instance: its number, from 0.
        started: when it began, in seconds of the server's clock.
        ended: when it had finished.
        error: why it has died instead; it takes no more batches.
    """

    instance: int
    started: float
    ended: float
    error: Optional[str] = None


class Server(Protocol):
    """Instances of one model. What drives them is the same for processes, for virtual time and for benchmarks."""

    @property
    def instances(self) -> int:
        """Their number."""

    @property
    def fixed_size(self) -> Optional[int]:
        """The only batch size that they can run, to which smaller batches are padded; ``None``: they run any."""

    def now(self) -> float:
        """Seconds of the clock that all times are given in."""

    def start(self, instance: int, size: int) -> None:
        """Give an idle instance a batch of ``size`` requests, without waiting for it."""

    def wait(self, until: float) -> Sequence[Reply]:
        """Wait until ``until``, or until there are replies; return the replies, which may be none."""

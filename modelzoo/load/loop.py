"""The generator: one single-threaded loop in which requests arrive, wait, are dispatched and answered.

Arrivals come from a schedule that is complete before the first of them, and never depend on replies. The latency of a
request counts from its *scheduled* arrival to the moment at which the loop has its reply, so a loop that is late makes
latencies longer, never shorter. This is the definition of MLPerf: "Latency is defined as the time from when the LoadGen
was scheduled to pass a query to the SUT, to the time it receives a reply" (``inference_rules.adoc``, "LoadGen
Operation", https://github.com/mlcommons/inference_policies).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from modelzoo.load.dispatcher import Batch, Batching, Dispatcher
from modelzoo.load.server import Server
from modelzoo.measure.garbage import without_collection

LEAD = 0.02
"""Seconds from the call to the start of the schedule, so that the first arrival is not late."""


@dataclass(frozen=True)
class GiveUp:
    """When a run cannot meet its bound any more, whatever else happens.

    Attributes:
        seconds: the bound.
        over: most requests that may take longer or be rejected.
    """

    seconds: float
    over: int


@dataclass
class Served:
    """What happened to each request. Times are in seconds of the server's clock, and NaN for what did not happen.

    Attributes:
        due: scheduled arrivals.
        admitted: when the loop took them.
        dispatched: when they were given to an instance.
        replied: when the loop had the reply.
        rejected: how many found the queue full.
        dispatcher: the queue after the run, with its counters.
        begun: when the schedule began.
        ended: the last reply.
        given_up: whether the run ended early, because it could not meet its bound any more.
    """

    due: list[float]
    admitted: list[float]
    dispatched: list[float]
    replied: list[float]
    rejected: int
    dispatcher: Dispatcher
    begun: float
    ended: float
    given_up: bool

    def latencies(self) -> list[float]:
        """Seconds from scheduled arrival to reply of the requests that were answered, in the order of arrival."""
        return [reply - due for due, reply in zip(self.due, self.replied) if reply == reply]

    def lateness(self) -> list[float]:
        """Seconds from scheduled arrival until the loop took the request, of all that it took."""
        return [taken - due for due, taken in zip(self.due, self.admitted) if taken == taken]


def serve(
    server: Server, arrivals: Sequence[float], batching: Batching, give_up: Optional[GiveUp] = None, lead: float = LEAD
) -> Served:
    """Let requests arrive at ``arrivals`` (seconds from the start, ascending), and wait for all replies.

    Args:
        server: its instances are idle.
        arrivals: one per request.
        batching: how they wait.
        give_up: end early if this happens.
        lead: seconds until the schedule starts.
    """
    with without_collection():  # its pauses would make the loop late
        return _Run(server, arrivals, batching, give_up, lead).run()


def stream(server: Server, queries: int, seconds: float) -> Served:
    """Send the next request as soon as the reply to the last one is there.

    A run ends when there were ``queries`` requests and ``seconds`` have passed. This is MLPerf's SingleStream
    (``TestScenario`` in ``test_settings.h``: "The next query is only issued once the previous one has completed"; "a
    percentile of the latency" is its result).
    """
    with without_collection():  # its pauses would make the loop late
        dispatcher = Dispatcher(server, Batching(1, 0.0, 1))
        found = Served([], [], [], [], 0, dispatcher, server.now(), server.now(), False)
        while (len(found.due) < queries or found.ended - found.begun < seconds) and not dispatcher.errors:
            now = server.now()
            found.due.append(now)
            found.admitted.append(now)
            found.dispatched.append(now)
            found.replied.append(math.nan)
            dispatcher.offer(len(found.due) - 1, now)
            dispatcher.dispatch(now)
            while dispatcher.is_busy and not dispatcher.errors:
                if dispatcher.finished(server.wait(math.inf)):
                    found.ended = found.replied[-1] = server.now()
        return found


class _Run:
    """One run of ``serve``."""

    def __init__(
        self, server: Server, arrivals: Sequence[float], batching: Batching, give_up: Optional[GiveUp], lead: float
    ) -> None:
        begun = server.now() + lead
        due = [begun + float(each) for each in arrivals]
        nothing = [math.nan] * len(due)
        self._server, self._give_up, self._over = server, give_up, 0
        self._found = Served(
            due, [*nothing], [*nothing], [*nothing], 0, Dispatcher(server, batching), begun, begun, False
        )

    def run(self) -> Served:
        server, found, dispatcher = self._server, self._found, self._found.dispatcher
        due, count, following = found.due, len(found.due), 0
        while following < count or dispatcher.is_busy:
            now = server.now()
            while following < count and due[following] <= now:
                found.admitted[following] = now
                if not self._admit(following, now):
                    found.rejected += 1
                    self._over += 1
                following += 1
            dispatcher.dispatch(now)
            until = min(due[following] if following < count else math.inf, dispatcher.deadline())
            replies = server.wait(until)
            if replies:
                self._take(dispatcher.finished(replies), server.now())
                if self._is_over():
                    following = count
        return found

    def _admit(self, request: int, now: float) -> bool:
        """Put a request into the queue; of several that are due at once, idle instances make room for the next."""
        dispatcher, arrival = self._found.dispatcher, self._found.due[request]
        if dispatcher.offer(request, arrival):
            return True
        dispatcher.dispatch(now)
        return dispatcher.offer(request, arrival)

    def _take(self, batches: Sequence[Batch], now: float) -> None:
        found = self._found
        for batch in batches:
            for request in batch.requests:
                found.dispatched[request], found.replied[request] = batch.dispatched, now
                if self._give_up is not None and now - found.due[request] > self._give_up.seconds:
                    self._over += 1
            found.ended = now

    def _is_over(self) -> bool:
        """Whether to end here: the bound cannot be met any more, or an instance has died."""
        found = self._found
        found.given_up = found.given_up or (self._give_up is not None and self._over > self._give_up.over)
        if found.given_up or found.dispatcher.errors:
            found.dispatcher.drop()
            return True
        return False

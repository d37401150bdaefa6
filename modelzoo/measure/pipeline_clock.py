"""Time a pipeline: its stages and the whole, what timing them costs, and some batches on a time line.

**One batch at a time** (``PipelineClock``). Each sample consists of two passes over the same batch, in alternating
order. One takes the time of every stage: by events of the device, which are read after the end, or by timestamps on a
CPU. The other one shows what that costs, or what it saves: on a device with timed events it synchronizes after every
stage, and otherwise it takes no time between the stages at all.

**Several batches in flight** (``InFlightClock``). Each sample is a run of batches. From the time at which as many have
left as may be in flight, the pipeline is full, and it stays full until the counted ones have left, because as many
follow them. The time between these two moments, divided by the number of counted batches, is the seconds per batch.

**The trace** is a file that Perfetto and chrome://tracing open. Format: "Trace Event Format" (Google, 2016): complete
events (``X``) with ``ts`` and ``dur`` in µs, and metadata events (``M``) that name the tracks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Callable, Optional

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice
from modelzoo.errors import UsageError
from modelzoo.files import write_atomically
from modelzoo.measure.pipeline import Flight, InFlight, Marks, Span, Step, begin, events_of, release, wait
from modelzoo.records.codec import encode_json
from modelzoo.records.timing import LATENCY, PER_BATCH, SYNCHRONIZED, UNDIVIDED, Place

KEPT_PASSES = 5
"""The last passes, which the trace shows."""
RUN_SECONDS = 0.2
"""The counted batches of a run take about this long, if there are not more in flight anyway."""
MOST_BATCHES = 500
"""Counted batches of a run at most."""
BEFORE, DEVICE, AFTER = 1, 2, 3
"""Tracks: the host's stages before those on the device, those on the device, and the host's after them."""
PROCESS = 1


class PipelineSample(msgspec.Struct, frozen=True):
    """One sample; ``latency`` is the end-to-end time in seconds, ``series`` has it and the others by name."""

    latency: float
    series: dict[str, float]

    def values(self) -> dict[str, float]:
        """What was timed, by the name of its series."""
        return self.series


class Pass(msgspec.Struct, frozen=True):
    """One batch on its way through the pipeline.

    Attributes:
        began: the host's time in ns.
        spans: when each stage ran, in seconds after ``began``.
        seconds: end to end.
    """

    began: int
    spans: tuple[Span, ...]
    seconds: float


class PipelineClock:
    """Times one batch at a time; a ``Clock``.

    Attributes:
        passes: the last passes in which the stages were timed, oldest first.
    """

    def __init__(self, steps: Sequence[Step], source: Any, device: Optional[AsynchronousDevice] = None) -> None:
        self._steps, self._source, self._device, self._events = steps, source, device, events_of(device)
        self._count = 0
        self.passes: deque[Pass] = deque(maxlen=KEPT_PASSES)

    def run(self) -> Any:
        """Run all stages once, and return what the last one returned."""
        return run_all(self._steps, self._source)

    def time(self, call: Callable[[], Any]) -> PipelineSample:
        """Time two passes; ``call`` is ``run``."""
        observed_first = self._count % 2 == 0
        self._count += 1
        other = 0.0 if observed_first else self._other(call)
        observed = self.staged()
        other = self._other(call) if observed_first else other
        name = SYNCHRONIZED if self._has_events else UNDIVIDED
        stages = {span.step.name: span.seconds for span in observed.spans}
        return PipelineSample(observed.seconds, {LATENCY: observed.seconds, **stages, name: other})

    @property
    def _has_events(self) -> bool:
        return self._events is not None

    def staged(self) -> Pass:
        """Run one pass with the time of every stage."""
        waits = self._device is not None and not self._has_events
        origin = begin(self._device, self._events)
        marks = Marks(self._events)
        output = marks.run(waiting(self._steps, self._device) if waits else self._steps, self._source)
        end = wait(self._device)
        del output  # after the last timestamp
        found = Pass(origin.at, marks.spans(origin), (end - origin.at) * 1e-9)
        release(origin, self._events)
        self.passes.append(found)
        return found

    def _other(self, call: Callable[[], Any]) -> float:
        """Seconds of a pass with a synchronization after every stage, or with no timestamp between the stages."""
        start = wait(self._device)
        output = run_all(waiting(self._steps, self._device), self._source) if self._has_events else call()
        end = wait(self._device)
        del output
        return (end - start) * 1e-9


class InFlightClock:
    """Times batches while several are in flight; a ``Clock``.

    Attributes:
        flights: the batches of the last run, in order.
    """

    def __init__(self, flight: InFlight, source: Any) -> None:
        self._flight, self._source = flight, source
        self._per_batch = RUN_SECONDS
        self.flights: list[Flight] = []

    def run(self) -> Any:
        """Run all stages once, and return what the last one returned."""
        return run_all(self._flight.steps, self._source)

    def time(self, call: Callable[[], Any]) -> PipelineSample:
        """Time one run of batches; ``call`` is not used. ``latency`` is that of the first batch."""
        limit = self._flight.limit
        counted = min(MOST_BATCHES, max(2 * limit, math.ceil(RUN_SECONDS / self._per_batch)))
        flights = self._flight.run([self._source] * (counted + 2 * limit), keep_outputs=False)
        self.flights = flights
        full, counting = flights[limit - 1].left, flights[limit : limit + counted]
        self._per_batch = (counting[-1].left - full) / counted
        series = {PER_BATCH: self._per_batch, LATENCY: median(each.left - each.entered for each in counting)}
        for index, step in enumerate(self._flight.steps):
            series[step.name] = fmean(each.spans[index].seconds for each in counting)
        return PipelineSample(flights[0].left - flights[0].entered, series)


def run_all(steps: Sequence[Step], value: Any) -> Any:
    """Run ``steps`` one after the other, and return what the last one returned."""
    for step in steps:
        value = step.call(value)
    return value


def waiting(steps: Sequence[Step], device: Optional[AsynchronousDevice]) -> list[Step]:
    """``steps``, each of which waits for the device at its end."""

    def waits(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            output = call(value)
            wait(device)
            return output

        return run

    return [Step(step.name, waits(step.call), step.place, step.by_events) for step in steps]


class TracedBatch(msgspec.Struct, frozen=True):
    """One batch: when it began, in ns by the host's clock, and its stages in seconds after that."""

    began: int
    spans: tuple[Span, ...]


def of_passes(passes: Iterable[Pass]) -> list[TracedBatch]:
    """The batches of passes one after the other."""
    return [TracedBatch(each.began, each.spans) for each in passes]


def of_flights(flights: Iterable[Flight]) -> list[TracedBatch]:
    """The batches of a run with several in flight."""
    return [TracedBatch(each.began, each.spans) for each in flights]


def events(batches: Sequence[TracedBatch], title: str, device: str) -> list[dict[str, object]]:
    """Return the events of a trace.

    Args:
        batches: in the order in which they ran.
        title: what ran.
        device: name of the device.
    """
    if not batches:
        return []
    tracks = {BEFORE: "host, before the device", DEVICE: f"device ({device})", AFTER: "host, after the device"}
    events: list[dict[str, object]] = [{"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": title}}]
    for track, name in tracks.items():
        place = {"ph": "M", "pid": PROCESS, "tid": track}
        events.append({**place, "name": "thread_name", "args": {"name": name}})
        events.append({**place, "name": "thread_sort_index", "args": {"sort_index": track}})
    for number, batch in enumerate(batches):
        offset = (batch.began - batches[0].began) * 1e-9
        for span, track in zip(batch.spans, _tracks(batch.spans)):
            events.append(
                {
                    "ph": "X",
                    "pid": PROCESS,
                    "tid": track,
                    "name": span.step.name,
                    "cat": str(span.step.place),
                    "ts": 1e6 * (offset + span.start),
                    "dur": 1e6 * span.seconds,
                    "args": {"batch": number},
                }
            )
    return events


def _tracks(spans: Sequence[Span]) -> list[int]:
    """The track of each stage: what lies between the first and the last one on the device is on the device's."""
    on_device = [index for index, span in enumerate(spans) if span.step.place is Place.DEVICE]
    first, last = on_device[0], on_device[-1]
    return [BEFORE if index < first else AFTER if index > last else DEVICE for index in range(len(spans))]


def write_trace(path: Path, batches: Sequence[TracedBatch], title: str, device: str) -> None:
    """Write the trace to ``path``, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        write_atomically(path, encode_json({"traceEvents": events(batches, title, device), "displayTimeUnit": "ms"}))
    except OSError as error:
        raise UsageError(f"cannot write the trace {path}: {error.strerror}; name another file with --trace") from error

"""The stages of some batches on a time line, as a file that Perfetto and chrome://tracing open.

Format: "Trace Event Format" (Google, 2016): complete events (``X``) with ``ts`` and ``dur`` in µs, and metadata events
(``M``) that name the tracks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelzoo.errors import UsageError
from modelzoo.files import write_atomically
from modelzoo.measure.in_flight import Flight
from modelzoo.measure.pipeline import Span
from modelzoo.measure.pipeline_clock import Pass
from modelzoo.records.codec import encode_json
from modelzoo.records.pipeline import Place

BEFORE, DEVICE, AFTER = 1, 2, 3
"""Tracks: the host's stages before those on the device, those on the device, and the host's after them."""
PROCESS = 1


@dataclass(frozen=True)
class TracedBatch:
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
    found: list[dict[str, object]] = [{"ph": "M", "pid": PROCESS, "name": "process_name", "args": {"name": title}}]
    for track, name in tracks.items():
        place = {"ph": "M", "pid": PROCESS, "tid": track}
        found.append({**place, "name": "thread_name", "args": {"name": name}})
        found.append({**place, "name": "thread_sort_index", "args": {"sort_index": track}})
    for number, batch in enumerate(batches):
        offset = (batch.began - batches[0].began) * 1e-9
        for span, track in zip(batch.spans, _tracks(batch.spans)):
            found.append(
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
    return found


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

"""What is timed in parts: the stages of a workload, one batch after the other, and generations, token by token.

A step on the host has completed when it returns. A step on an accelerator has only been issued, so its time is that
between two events, which are read when the device has done everything: waiting after each step would stall what is
measured. A copy to the host waits for the device by itself, because the next step needs its result.

Generations of a language model run token by token for the clock, and phase by phase for the audit. The time to the
first token (TTFT) is that of the prefill, the choice of the token included. The time per output token (TPOT) is that of
the other tokens divided by their number, so TTFT + (tokens − 1) × TPOT is the time of the whole generation. On an
accelerator every token is waited for, as a server that streams its answer must.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from statistics import fmean
from time import perf_counter_ns
from typing import Any

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, ComposableModel, DeviceEvent
from modelzoo.evidence.recording import Phases
from modelzoo.frozen import replace
from modelzoo.measure.sampler import Times, timing_events
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    MODEL,
    PER_TOKEN,
    SYNCHRONIZED,
    TO_DEVICE,
    TO_HOST,
    UNDIVIDED,
    Generated,
    PipelineStage,
    Place,
    Series,
    Timing,
)
from modelzoo.workload.declaration import ModelInput, ModelOutput, Stages
from modelzoo.workload.generation import Forward, Generation, generate, noting_cache
from modelzoo.workload.nested import mapped


class Step(msgspec.Struct, frozen=True):
    """A stage as this process runs it; ``by_events`` is whether it is timed by events of the device."""

    name: str
    call: Callable[[Any], Any]
    place: Place
    by_events: bool = False


def steps_of(
    stages: Stages,
    model: Callable[[ModelInput], ModelOutput],
    device: AsynchronousDevice | None = None,
    device_name: str = "cpu",
) -> tuple[Step, ...]:
    """Return the steps of ``stages`` with ``model`` between them, and with copies if the device has its own memory.

    Args:
        stages: what the workload declares.
        model: the model stage.
        device: the accelerator that the stages on the device use; ``None``: they use the CPU.
        device_name: what tensors are moved to.
    """
    before, after = (
        [Step(each.name, each.call, Place(each.place)) for each in part] for part in (stages.before, stages.after)
    )
    steps = (*before, Step(MODEL, model, Place.DEVICE), *after)
    if device is None:
        return steps
    copies = {
        Place.HOST: (TO_HOST, lambda value: moved(value, lambda tensor: tensor.cpu())),
        Place.DEVICE: (TO_DEVICE, lambda value: moved(value, lambda tensor: tensor.to(device_name))),
    }
    with_copies: list[Step] = []
    place = Place.HOST  # where the first value is, and where the last one must be
    for step in (*steps, None):
        wanted = Place.HOST if step is None else step.place
        if wanted is not place:
            name, copy = copies[wanted]
            number = 1 + sum(each.name.startswith(name) for each in with_copies)
            numbered = name if number == 1 else f"{name} {number}"
            with_copies.append(Step(numbered, copy, Place.DEVICE, device.timed_events))
            place = wanted
        if step is not None:
            with_copies.append(replace(step, by_events=device.timed_events and step.place is Place.DEVICE))
    return tuple(with_copies)


def moved(value: Any, move: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``move`` applied to every tensor in it; contexts of the stages stay as they are."""
    if isinstance(value, ModelInput):
        return replace(value, args=moved(value.args, move))
    if isinstance(value, ModelOutput):
        return replace(value, output=moved(value.output, move))
    return mapped(value, lambda each: move(each) if hasattr(each, "cpu") else each)


def events_for(steps: Sequence[Step], device: AsynchronousDevice | None) -> list[DeviceEvent]:
    """Return the events of a pass; none if there is no device, or if its events tell no time."""
    return timing_events(device, 1 + 2 * sum(step.by_events for step in steps))


def timed_pass(
    steps: Sequence[Step], value: Any, device: AsynchronousDevice | None, events: Sequence[DeviceEvent]
) -> tuple[float, list[tuple[Step, float, float]]]:
    """Run ``steps`` one after the other, each on what the one before it returned, from an idle device to an idle one.

    Args:
        value: what the first step takes.
        events: those of ``events_for``; they are read when the device has done everything.

    Returns:
        The seconds of the whole, and when each step began and ended, in seconds after the pass began.
    """
    unused = iter(events)

    def mark(*, by_event: bool) -> int | DeviceEvent:
        if not by_event:
            return perf_counter_ns()
        event = next(unused)
        event.record()
        return event

    began = wait(device)
    origin = mark(by_event=True) if events else began
    marks = []
    for step in steps:
        start = mark(by_event=step.by_events)
        value = step.call(value)
        marks.append((step, start, mark(by_event=step.by_events)))
    ended = wait(device)
    del value  # after the last timestamp

    def seconds(mark: int | DeviceEvent) -> float:
        if isinstance(mark, int):
            return (mark - began) * 1e-9
        assert not isinstance(origin, int)
        return origin.elapsed_time(mark) * 1e-3

    return (ended - began) * 1e-9, [(step, seconds(start), seconds(end)) for step, start, end in marks]


def wait(device: AsynchronousDevice | None) -> int:
    """Wait until the device has done everything, and return the host's time in ns."""
    if device is not None:
        device.synchronize()
    return perf_counter_ns()


class PipelineClock:
    """Times a pipeline: its stages and the whole, and what timing them costs; ``time`` is a ``Clock``.

    Each sample consists of two passes over the same batch, in alternating order. One takes the time of every stage: by
    events of the device, which are read after the end, or by timestamps on a CPU. The other one shows what that costs,
    or what it saves: on a device with timed events it synchronizes after every stage, and otherwise it takes no time
    between the stages at all.

    Args:
        steps: the stages in this process.
        source: the batch that the first one takes.
        device: the accelerator; ``None`` for a CPU.
    """

    def __init__(self, steps: Sequence[Step], source: Any, device: AsynchronousDevice | None = None) -> None:
        self.steps, self._source, self._device, self._events = steps, source, device, events_for(steps, device)
        self._count = 0

    def record(self) -> tuple[PipelineStage, ...]:
        """What the result stores of it."""
        return tuple(PipelineStage(step.name, step.place, step.by_events) for step in self.steps)

    def run(self) -> Any:
        """Run all stages once, and return what the last one returned."""
        return run_all(self.steps, self._source)

    def time(self, call: Callable[[], Any]) -> Times:
        """Time two passes; ``call`` is ``run``."""
        stages_first = self._count % 2 == 0
        self._count += 1
        other = 0.0 if stages_first else self._other(call)
        waits = self._device is not None and not self._events
        steps = waiting(self.steps, self._device) if waits else self.steps
        latency, spans = timed_pass(steps, self._source, self._device, self._events)
        other = self._other(call) if stages_first else other
        # Events may be too coarse to tell how long a step took.
        stages = {step.name: max(end - start, 1e-9) for step, start, end in spans}
        return {LATENCY: latency, **stages, SYNCHRONIZED if self._events else UNDIVIDED: other}

    def _other(self, call: Callable[[], Any]) -> float:
        """Seconds of a pass with a synchronization after every stage, or with no timestamp between the stages."""
        start = wait(self._device)
        output = run_all(waiting(self.steps, self._device), self._source) if self._events else call()
        end = wait(self._device)
        del output
        return (end - start) * 1e-9


def run_all(steps: Sequence[Step], value: Any) -> Any:
    """Run ``steps`` one after the other, and return what the last one returned."""
    for step in steps:
        value = step.call(value)
    return value


def waiting(steps: Sequence[Step], device: AsynchronousDevice | None) -> list[Step]:
    """``steps``, each of which waits for the device at its end."""

    def waits(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            output = call(value)
            wait(device)
            return output

        return run

    return [Step(step.name, waits(step.call), step.place, step.by_events) for step in steps]


class Generating(msgspec.Struct, frozen=True):
    """A generation that is ready to run.

    Attributes:
        generation: how the workload generates.
        model: each of its calls is one forward pass under the setting.
        args: the prepared arguments of the prefill.
    """

    generation: Generation
    model: ComposableModel
    args: tuple[Any, ...]

    def whole(self) -> ComposableModel:
        """A model whose calls are generations."""
        return self.model.composed(lambda forward: lambda *given: generate(self.generation, forward, given))

    def noting(self, phases: Phases, read: list[int | None]) -> ComposableModel:
        """As ``whole``, but ``phases`` is told which phase is running.

        ``read`` receives the bytes of the cache that each step of the last generation read.
        """

        def calls(forward: Forward) -> Callable[..., Any]:
            def call(*given: Any) -> Any:
                found: list[int | None] = []
                own = noting_cache(self.generation, found)

                def prefill(*args: Any) -> tuple[Any, Any]:
                    phases.enter(PREFILL)
                    return own.prefill(*args)

                def step(*args: Any) -> tuple[Any, Any]:
                    phases.enter(DECODE)
                    return own.step(*args)

                tokens = generate(replace(own, prefill=prefill, step=step), forward, given)
                phases.leave()
                read[:] = found
                return tokens

            return call

        return self.model.composed(calls)

    def shortest(self) -> ComposableModel:
        """A model whose calls are generations of two tokens: the prefill and one step."""
        short = replace(self.generation, new_tokens=2)
        return self.model.composed(lambda forward: lambda *given: generate(short, forward, given))

    def bytes_read(self, cache: Sequence[int | None]) -> DecodingBytes | None:
        """Return what a step reads on average; ``None`` if the weights or the cache are not known.

        Args:
            cache: what ``noting`` noted. If that is nothing, a generation is run.
        """
        if not cache:
            self.noting(Phases(), cache := []).call(*self.args)
        weights, known = self.model.weight_bytes(), [each for each in cache if each is not None]
        return DecodingBytes(weights, fmean(known)) if weights is not None and len(known) == len(cache) else None

    def record(self) -> Generated:
        """What the result stores of it."""
        return Generated(self.generation.prompt_tokens, self.generation.new_tokens)


class GenerationClock:
    """Times one generation at a time; ``time`` is a ``Clock``."""

    def __init__(self, generating: Generating, device: AsynchronousDevice | None = None) -> None:
        self._generating, self._device = generating, device
        self._between: list[tuple[float, ...]] = []

    def time(self, call: Callable[[], Any]) -> Times:
        """Time one generation; ``call`` is not used, because it takes no timestamps."""
        own, device = self._generating, self._device
        stamps = [wait(device)]
        tokens = generate(own.generation, own.model.call, own.args, lambda: stamps.append(wait(device)))
        del tokens  # after the last timestamp
        first, *between = ((end - start) * 1e-9 for start, end in itertools.pairwise(stamps))
        self._between.append(tuple(between))
        others = sum(between)
        return {LATENCY: first + others, FIRST_TOKEN: first, PER_TOKEN: others / len(between)}

    def with_tokens(self, timing: Timing) -> Timing:
        """``timing``, the last that this clock was used for, with the time between any two tokens of its samples."""
        samples = self._between[-len(timing.steady) :]
        values = tuple(value for between in samples for value in between)
        series = Series(BETWEEN_TOKENS, values)
        return replace(timing, series=(*timing.series, series))

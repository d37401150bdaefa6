"""Run the generations of a language model: token by token for the clock, and phase by phase for the audit.

The time to the first token (TTFT) is that of the prefill, the choice of the token included. The time per output token
(TPOT) is that of the other tokens divided by their number, so TTFT + (tokens − 1) × TPOT is the time of the whole
generation. On an accelerator every token is waited for, as a server that streams its answer must.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from statistics import fmean
from typing import Any, Callable, Optional

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, ComposableModel, Part
from modelzoo.frozen import replace
from modelzoo.machine.cpu import available_memory
from modelzoo.measure.pipeline import wait
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    SECONDS,
    Generated,
    Series,
    Timing,
    role_of,
)
from modelzoo.workload.generation import Forward, Generation, generate, noting_cache

COPIES = 3
"""Copies of the state of a generation that must fit into memory while its phases are audited."""


class StateNotCopiedError(Exception):
    """A step cannot be repeated, so it cannot be audited alone; the message says why, in one line."""


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

    def noting(self, read: list[int | None]) -> ComposableModel:
        """As ``whole``; ``read`` receives the bytes of the cache that each step of the last generation read."""

        def calls(forward: Forward) -> Callable[..., Any]:
            def call(*given: Any) -> Any:
                found: list[int | None] = []
                tokens = generate(noting_cache(self.generation, found), forward, given)
                read[:] = found
                return tokens

            return call

        return self.model.composed(calls)

    def shortest(self) -> ComposableModel:
        """A model whose calls are generations of two tokens: the prefill and one step."""
        short = replace(self.generation, new_tokens=2)
        return self.model.composed(lambda forward: lambda *given: generate(short, forward, given))

    @contextmanager
    def phases(self) -> Iterator[tuple[Part, Part]]:
        """Yield the prefill, and the step in the middle of a generation, as representative of all steps.

        Every call of the step goes on from a copy of the same state, so that its outputs can be compared, and returns
        logits only. Three copies of the state exist at a time: the one that is kept, that of the next step, and that of
        a whole generation.

        Raises:
            StateNotCopiedError: the state cannot be copied.
        """
        own = self.generation
        token, state = self._middle()
        try:
            step = _Step(own, _copied(own, state))
        finally:
            own.reset(state)
        del state
        prefill = _Prefill(own)
        try:
            yield (
                Part(self.model.composed(prefill.calls), self.args, 1, prefill.ready),
                Part(self.model.composed(step.calls), (token,), own.new_tokens - 1, step.ready),
            )
        finally:
            prefill.ready()

    def _middle(self) -> tuple[Any, Any]:
        """Half of a generation: the last token, and the state that the next step goes on from."""
        logits, state = self.generation.prefill(self.model.call, *self.args)
        for _ in range((self.generation.new_tokens - 2) // 2):
            logits, state = self.generation.step(self.model.call, logits.argmax(-1, keepdim=True), state)
        return logits.argmax(-1, keepdim=True), state

    def bytes_read(self, cache: Sequence[int | None]) -> Optional[DecodingBytes]:
        """Return what a step reads on average; ``None`` if the weights or the cache are not known.

        Args:
            cache: what ``noting`` noted. If that is nothing, a generation is run.
        """
        if not cache:
            self.noting(cache := []).call(*self.args)
        weights, known = self.model.weight_bytes(), [each for each in cache if each is not None]
        return DecodingBytes(weights, fmean(known)) if weights is not None and len(known) == len(cache) else None

    def record(self) -> Generated:
        """What the result stores of it."""
        return Generated(self.generation.prompt_tokens, self.generation.new_tokens)


class _Prefill:
    """Calls that each process the prompt from the beginning."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._states: list[Any] = []

    def ready(self) -> None:
        """Give the state of the call before back, which the next one may use again."""
        while self._states:
            self._generation.reset(self._states.pop())

    def calls(self, forward: Forward) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.ready()
            logits, state = self._generation.prefill(forward, *args)
            self._states.append(state)
            return logits

        return call


class _Step:
    """Calls that each generate one token from the same state."""

    def __init__(self, generation: Generation, state: Any) -> None:
        self._generation, self._state = generation, state
        self._copies: list[Any] = []

    def ready(self) -> None:
        """Copy the state ahead, so that it is no part of the next call."""
        if not self._copies:
            self._copies.append(_copy(self._state))

    def calls(self, forward: Forward) -> Callable[..., Any]:
        def call(token: Any) -> Any:
            self.ready()
            logits, _ = self._generation.step(forward, token, self._copies.pop())
            return logits

        return call


def _copied(generation: Generation, state: Any) -> Any:
    size, available = generation.cache_bytes(state), available_memory()
    if size is not None and COPIES * size > available:
        needed = f"{COPIES} copies take {COPIES * size:,} bytes, and {available:,} are free"
        raise StateNotCopiedError(f"the state of a generation cannot be copied: {needed}")
    return _copy(state)


def _copy(state: Any) -> Any:
    try:
        return deepcopy(state)
    except Exception as error:  # a state is the workload's own, and may hold anything
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StateNotCopiedError(f"the state of a generation cannot be copied: {reason}") from error


class GenerationSample(msgspec.Struct, frozen=True):
    """The times of one generation in seconds: to the first token, and from each token to the next."""

    first: float
    between: tuple[float, ...]

    @property
    def latency(self) -> float:
        """The whole generation."""
        return self.first + sum(self.between)

    def values(self) -> dict[str, float]:
        """What was timed, by the name of its series."""
        return {LATENCY: self.latency, FIRST_TOKEN: self.first, PER_TOKEN: sum(self.between) / len(self.between)}


class GenerationClock:
    """Times one generation at a time; a ``Clock``."""

    def __init__(self, generating: Generating, device: Optional[AsynchronousDevice] = None) -> None:
        self._generating, self._device = generating, device
        self._between: list[tuple[float, ...]] = []

    def time(self, call: Callable[[], Any]) -> GenerationSample:
        """Time one generation; ``call`` is not used, because it takes no timestamps."""
        own, device = self._generating, self._device
        stamps = [wait(device)]
        tokens = generate(own.generation, own.model.call, own.args, lambda: stamps.append(wait(device)))
        del tokens  # after the last timestamp
        first, *between = ((end - start) * 1e-9 for start, end in zip(stamps, stamps[1:]))
        self._between.append(tuple(between))
        return GenerationSample(first, tuple(between))

    def with_tokens(self, timing: Timing) -> Timing:
        """``timing``, the last that this clock was used for, with the time between any two tokens of its samples."""
        samples = self._between[-len(timing.steady) :]
        values = tuple(value for between in samples for value in between)
        series = Series(BETWEEN_TOKENS, SECONDS, role_of(BETWEEN_TOKENS), values)
        return replace(timing, series=(*timing.series, series))

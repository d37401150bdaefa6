"""Run the generations of a language model: token by token for the clock, and phase by phase for the audit.

The time to the first token (TTFT) is that of the prefill, the choice of the token included. The time per output token
(TPOT) is that of the other tokens divided by their number, so TTFT + (tokens − 1) × TPOT is the time of the whole
generation. On an accelerator every token is waited for, as a server that streams its answer must.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import msgspec

from modelzoo.engines.protocol import AsynchronousDevice, ComposableModel
from modelzoo.evidence.recording import Phases
from modelzoo.frozen import replace
from modelzoo.measure.clock import Times
from modelzoo.measure.pipeline import wait
from modelzoo.records.profile import DecodingBytes
from modelzoo.records.run_report import DECODE, PREFILL
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    Generated,
    Series,
    Timing,
)
from modelzoo.workload.generation import Forward, Generation, generate, noting_cache


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
    """Times one generation at a time; a ``Clock``."""

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

"""What a sample of a generation holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pipelines import MILLISECOND
from simulated_device import SimulatedDevice

from modelzoo.errors import UsageError
from modelzoo.measure.generation import Generating, GenerationClock
from modelzoo.records.timing import (
    BETWEEN_TOKENS,
    FIRST_TOKEN,
    LATENCY,
    PER_TOKEN,
    SamplingStop,
    Series,
    Timing,
    WarmUpEnd,
)
from modelzoo.workload import Generation
from modelzoo.workload.generation import generate


def scores(token: int) -> Any:
    """Logits whose most likely token is known."""
    return SimpleNamespace(argmax=lambda dimension, keepdim: token)


def counting(reset: list[Any]) -> Generation:
    """The state is all that was seen, and the next token is one more than the last."""

    def prefill(forward: Any, *prompt: int) -> tuple[Any, list[int]]:
        forward(20)
        return scores(prompt[-1] + 1), list(prompt)

    def step(forward: Any, token: int, state: list[int]) -> tuple[Any, list[int]]:
        forward(3 + len(state) / 10)
        return scores(token + 1), [*state, token]

    return Generation(2, 4, prefill, step, reset.append)


def test_each_token_is_fed_back_until_there_are_enough() -> None:
    """Prefill gives the first one, a step each other one; the state is reset after the last."""
    reset: list[Any] = []
    done: list[int] = []
    tokens = generate(counting(reset), lambda milliseconds: None, (5, 6), lambda: done.append(len(reset)))
    assert tokens == (7, 8, 9, 10)
    assert done == [0, 0, 0, 0]
    assert reset == [[5, 6, 7, 8, 9]]


@pytest.mark.parametrize(("prompt", "new"), [(0, 5), (3, 1)])
def test_a_generation_has_a_prompt_and_two_tokens(prompt: int, new: int) -> None:
    """Otherwise there is no time per output token."""
    with pytest.raises(UsageError, match=f"at least 2 new tokens, not {prompt} and {new}; correct generate"):
        Generation(prompt, new, lambda: (None, None), lambda *given: (None, None))


def clock_on(device: SimulatedDevice) -> GenerationClock:
    """A clock of four tokens on ``device``: prefill takes 20 ms, the steps 3.2, 3.3 and 3.4."""
    model = SimpleNamespace(call=lambda milliseconds: device.launch(takes=round(milliseconds * MILLISECOND)))
    return GenerationClock(Generating(counting([]), model, (5, 6)), device)


def test_a_generation_is_the_first_token_and_the_others(device: SimulatedDevice) -> None:
    """Every token is waited for, so none of the device's work is counted with the next one."""
    found = clock_on(device).time(lambda: pytest.fail("the clock generates itself"))
    assert 1e3 * found[FIRST_TOKEN] == pytest.approx(20, abs=0.01)
    assert 1e3 * found[PER_TOKEN] == pytest.approx(3.3, abs=0.01)
    assert found[LATENCY] - found[FIRST_TOKEN] == pytest.approx(3 * found[PER_TOKEN], rel=1e-12)


def test_times_between_tokens_are_those_of_the_samples(device: SimulatedDevice) -> None:
    """Not those of the cold start and the warm-up, which come first."""
    clock = clock_on(device)
    cold, *samples = [clock.time(lambda: None) for _ in range(3)]
    series = Series(LATENCY, tuple(each[LATENCY] for each in samples))
    timing = Timing(cold[LATENCY], (), (series,), LATENCY, WarmUpEnd.FIXED, SamplingStop.ITERATIONS)
    found = clock.with_tokens(timing).find(BETWEEN_TOKENS)
    assert found is not None
    assert [round(1e3 * value, 1) for value in found.values] == [3.2, 3.3, 3.4] * 2

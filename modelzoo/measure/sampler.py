"""Time a call: one cold start, a warm-up, then steady-state samples.

**Cold start.** The very first call, on its own: it pays for lazy initialisation, weight packing and page faults.

**Warm-up.** Calls are timed but not used until timings stabilize: the medians of the last two windows of calls
agree (``stats.is_settled``). The warm-up takes at least ``WARMUP_MIN_SECONDS``, because threads and clock
frequencies need that long to ramp up, and at most ``WARMUP_MAX_SECONDS``. ``--warmup N`` fixes the number of calls.

**Sampling.** After the warm-up every sample counts. Samples are taken in turns of ``TURN_SECONDS``, until the turns
together have taken ``Plan.max_seconds``, or until there are ``Plan.iterations`` samples. The spread of a process's own
samples never ends its sampling: processes differ by far more, so a narrow interval within one is false precision.

**Turns of several workers.** Several workers are alive at once, one per setting, and only one of them works at a
time. ``pause`` blocks before each turn until the parent gives this worker its turn.

Python's garbage collector is kept from running meanwhile, as ``timeit`` does: its pauses must not fall into a sample.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Callable

from modelzoo import stats
from modelzoo.measure.clock import Clock, Timed
from modelzoo.plan import Plan
from modelzoo.records.timing import LATENCY, SECONDS, SamplingStop, Series, Timing, WarmUpEnd, role_of

WARMUP_WINDOW = 5
"""Calls in one window of the warm-up at first; later a window holds a quarter of all calls."""
WARMUP_MIN_SECONDS = 0.2
"""The warm-up takes at least this long."""
WARMUP_MAX_SECONDS = 2.0
"""The warm-up ends after this time at the latest. Longer ones gain nothing on a CPU: from the second call on, calls of
the four workloads scatter about their steady median without a trend."""
WARMUP_CHECK_SECONDS = 0.05
"""How often the warm-up checks whether timings have stabilized."""
MIN_SAMPLES = 3
"""Sampling never stops with fewer samples than this, whatever the time limit: the fewest that have a median which one
odd sample does not move."""
TURN_SECONDS = 0.5
"""Length of one turn. The speed of a shared machine drifts over seconds (the medians of two processes that run 3 s
apart correlate by 0.6), so turns must be shorter than that."""
COLD_CACHE_SECONDS = 0.05
"""If calls are shorter than this, each turn starts with an untimed call: other workers have used the caches in the
meantime, and refilling them takes up to a few milliseconds."""
Pause = Callable[[int], None]
"""Called before each turn with the number of samples so far. Blocks until the turn may begin."""
Progress = Callable[[str, int], None]
"""Called with the phase (``cold``, ``warm-up`` or ``steady``) and the number of calls in it so far."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Keep the collector from running, as ``timeit`` does; afterwards it is as before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _ignore_progress(phase: str, count: int) -> None:
    pass


def measure(
    call: Callable[[], Any],
    clock: Clock,
    plan: Plan,
    progress: Progress = _ignore_progress,
    pause: Pause | None = None,
) -> Timing:
    """Time ``call``: cold start, warm-up, steady-state samples.

    Garbage is collected before sampling, and the collector is off while sampling, as in ``timeit``.

    Args:
        call: one forward pass.
        clock: how a call is timed.
        plan: how long to warm up and to sample.
        progress: called several times a second.
        pause: waits for the next turn; without it the turns follow each other.

    Raises:
        ValueError: the plan says neither how many samples nor how many seconds.
    """
    if plan.iterations is None and plan.max_seconds is None:
        raise ValueError("the plan has no end: it gives neither iterations nor seconds")
    cold, warmup, warmup_end = warm_up(call, clock, plan, progress)
    gc.collect()
    with without_collection():
        latency = warmup[-1] if warmup else cold
        samples, stop = _sample(call, clock, plan, progress, pause, latency)
    return Timing(cold, tuple(warmup), _series(samples), LATENCY, warmup_end, stop)


def warm_up(
    call: Callable[[], Any],
    clock: Clock,
    plan: Plan,
    progress: Progress = _ignore_progress,
) -> tuple[float, list[float], WarmUpEnd]:
    """Run the cold start and the warm-up only; the arguments are those of ``measure``.

    Returns:
        The latency of the first call, those of the warm-up, and why it ended.
    """
    progress("cold", 0)
    cold = clock.time(call)
    values, end = _warm_up(call, clock, plan, progress)
    return cold.latency, values, end


def _series(samples: Sequence[Timed]) -> tuple[Series, ...]:
    columns: dict[str, list[float]] = {}
    for sample in samples:
        for name, value in sample.values().items():
            columns.setdefault(name, []).append(value)
    return tuple(Series(name, SECONDS, role_of(name), tuple(values)) for name, values in columns.items())


def _warm_up(call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress) -> tuple[list[float], WarmUpEnd]:
    values: list[float] = []
    if plan.warmup is not None:
        for _ in range(plan.warmup):
            values.append(clock.time(call).latency)
            progress("warm-up", len(values))
        return values, WarmUpEnd.FIXED
    started = checked = perf_counter()
    while True:
        values.append(clock.time(call).latency)
        now = perf_counter()
        if now - checked < WARMUP_CHECK_SECONDS:
            continue
        checked = now
        progress("warm-up", len(values))
        window = max(WARMUP_WINDOW, len(values) // 4)
        if now - started >= WARMUP_MIN_SECONDS and stats.is_settled(values, window):
            return values, WarmUpEnd.SETTLED
        if now - started > WARMUP_MAX_SECONDS:
            return values, WarmUpEnd.CAP if len(values) >= 2 * WARMUP_WINDOW else WarmUpEnd.FEW


def _sample(
    call: Callable[[], Any],
    clock: Clock,
    plan: Plan,
    progress: Progress,
    pause: Pause | None,
    latency: float,
) -> tuple[list[Timed], SamplingStop]:
    """Return the samples, and why there are no more. ``latency``: about how many seconds a call takes."""
    samples: list[Timed] = []
    spent = 0.0
    while True:
        if pause is not None:
            pause(len(samples))
            if (samples[-1].latency if samples else latency) < COLD_CACHE_SECONDS:
                call()
        spent += _take_turn(call, clock, plan, samples)
        progress("steady", len(samples))
        if len(samples) == plan.iterations:
            return samples, SamplingStop.ITERATIONS
        late = plan.max_seconds is not None and spent >= plan.max_seconds
        if plan.iterations is None and late and len(samples) >= MIN_SAMPLES:
            return samples, SamplingStop.TIME_LIMIT


def _take_turn(call: Callable[[], Any], clock: Clock, plan: Plan, samples: list[Timed]) -> float:
    """Append samples until the turn is over; return how many seconds it took."""
    started = now = perf_counter()
    while now - started < TURN_SECONDS and len(samples) != plan.iterations:
        samples.append(clock.time(call))
        now = perf_counter()
    return now - started

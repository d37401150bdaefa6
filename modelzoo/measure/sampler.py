"""Time a call: one cold start, a warm-up, then steady-state samples.

**Cold start.** The very first call, on its own: it pays for lazy initialisation, weight packing and page faults.

**Warm-up.** Calls are timed but not used until timings stabilize: the medians of the last two windows of calls
agree (``stats.is_settled``). The warm-up takes at least ``WARMUP_MIN_SECONDS``, because threads and clock
frequencies need that long to ramp up, and at most ``WARMUP_MAX_SECONDS``. ``--warmup N`` fixes the number of calls.

**Sampling.** After the warm-up every sample counts. Samples are taken in turns of ``TURN_SECONDS``, until the turns
together have taken ``Plan.max_seconds``, or until there are ``Plan.iterations`` samples. The spread of a process's own
samples never ends its sampling: processes differ by far more, so a narrow interval within one is false precision.

**Turns of several workers.** Several workers are alive at once, one per setting, and only one of them works at a
time: ``Sampling.turn`` is called when it is this worker's turn.

Python's garbage collector is kept from running meanwhile, as ``timeit`` does: its pauses must not fall into a sample.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from modelzoo import stats
from modelzoo.measure.clock import Clock, Times
from modelzoo.plan import Plan
from modelzoo.records.timing import LATENCY, SamplingStop, Series, Timing, WarmUpEnd

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


class Sampling:
    """The timing of a call: a warm-up, then turns until there are enough samples.

    Garbage is collected before sampling, and the collector is off during a turn, as in ``timeit``.

    Args:
        call: one forward pass.
        clock: how a call is timed.
        plan: how long to warm up and to sample.
        progress: called several times a second.

    Attributes:
        samples: those taken so far.

    Raises:
        ValueError: the plan says neither how many samples nor how many seconds.
    """

    def __init__(
        self, call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress = _ignore_progress
    ) -> None:
        if plan.iterations is None and plan.max_seconds is None:
            raise ValueError("the plan has no end: it gives neither iterations nor seconds")
        self._call, self._clock, self._plan, self._progress = call, clock, plan, progress
        self.samples: list[Times] = []
        self._spent = 0.0

    def warm_up(self) -> None:
        """Run the cold start and the warm-up."""
        self._cold, self._warmup, self._end = warm_up(self._call, self._clock, self._plan, self._progress)
        gc.collect()

    def turn(self) -> bool:
        """Take samples for half a second; return whether more are to be taken."""
        samples, plan = self.samples, self._plan
        with without_collection():
            latency = samples[-1][LATENCY] if samples else self._warmup[-1] if self._warmup else self._cold
            if latency < COLD_CACHE_SECONDS:
                self._call()
            started = now = perf_counter()
            while now - started < TURN_SECONDS and len(samples) != plan.iterations:
                samples.append(self._clock.time(self._call))
                now = perf_counter()
        self._spent += now - started
        self._progress("steady", len(samples))
        if plan.iterations is not None:
            return len(samples) != plan.iterations
        return len(samples) < MIN_SAMPLES or plan.max_seconds is None or self._spent < plan.max_seconds

    def timing(self) -> Timing:
        """What was timed, after the last turn."""
        series = tuple(Series(name, tuple(sample[name] for sample in self.samples)) for name in self.samples[0])
        is_fixed = len(self.samples) == self._plan.iterations
        stop: SamplingStop = "iterations" if is_fixed else "time limit"
        return Timing(self._cold, tuple(self._warmup), series, LATENCY, self._end, stop)


def measure(call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress = _ignore_progress) -> Timing:
    """Time ``call`` without waiting between turns; the arguments are those of ``Sampling``."""
    sampling = Sampling(call, clock, plan, progress)
    sampling.warm_up()
    while sampling.turn():
        pass
    return sampling.timing()


def warm_up(
    call: Callable[[], Any],
    clock: Clock,
    plan: Plan,
    progress: Progress = _ignore_progress,
) -> tuple[float, list[float], WarmUpEnd]:
    """Run the cold start and the warm-up only; the arguments are those of ``Sampling``.

    Returns:
        The latency of the first call, those of the warm-up, and why it ended.
    """
    progress("cold", 0)
    cold = clock.time(call)[LATENCY]
    values: list[float] = []
    if plan.warmup is not None:
        for _ in range(plan.warmup):
            values.append(clock.time(call)[LATENCY])
            progress("warm-up", len(values))
        return cold, values, "fixed"
    started = checked = perf_counter()
    while True:
        values.append(clock.time(call)[LATENCY])
        now = perf_counter()
        if now - checked < WARMUP_CHECK_SECONDS:
            continue
        checked = now
        progress("warm-up", len(values))
        window = max(WARMUP_WINDOW, len(values) // 4)
        if now - started >= WARMUP_MIN_SECONDS and stats.is_settled(values, window):
            return cold, values, "settled"
        if now - started > WARMUP_MAX_SECONDS:
            return cold, values, "cap" if len(values) >= 2 * WARMUP_WINDOW else "few"

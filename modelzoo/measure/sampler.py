"""Warm up until the level stops moving, then sample until the median is known well enough."""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Callable

from modelzoo import stats
from modelzoo.measure.clock import Clock, Sample
from modelzoo.setting import Plan

WARMUP_WINDOW = 5
"""The warm-up ends when the last two windows (5 calls, later a quarter of all) have the same level …"""
WARMUP_LEAST_SECONDS = 0.2
"""… but not before this time, which threads and clock frequencies need to wake up …"""
WARMUP_CAP_SECONDS = 5.0
"""… and at the latest now, or after two calls where those take longer."""
LEAST_SAMPLES = 4
"""No median from fewer samples than this, whatever the time limit says."""
TURN_SECONDS = 0.5
"""How long one worker samples before another has its turn. A shared machine's speed wanders over seconds (a
process and the next one 3 s later correlate by 0.6), so turns must be shorter. Between turns, or as often, the
interval is computed and progress told."""
COLD_CACHE_SECONDS = 0.05
"""Calls shorter than this are called once untimed at the start of a turn: the other worker had the caches, and
filling them again takes up to some milliseconds."""

Pause = Callable[[bool], bool]
"""Called between turns with whether the interval is narrow enough; returns when the next turn may begin, and
whether there is one."""
Progress = Callable[[str, int, float], None]
"""Called with the phase's name, the number of iterations so far, and the interval's half width."""


@dataclass(frozen=True)
class Phases:
    """Everything that was timed in one process, apart: seconds of each iteration.

    ``cold`` is the very first call, ``warmup`` the calls after it until the level was settled,
    ``steady`` the samples that count. ``warmup_end`` is ``settled``, ``cap`` (still moving then),
    ``few`` (calls too slow to judge by) or ``fixed``; ``stop`` says why sampling ended: ``interval``,
    ``time limit`` or ``iterations``. ``issue`` and ``device`` are those of the steady samples on an accelerator.
    """

    cold: float
    warmup: tuple[float, ...]
    steady: tuple[float, ...]
    warmup_end: str
    stop: str
    issue: tuple[float, ...] = ()
    device: tuple[float, ...] = ()


def _silent(phase: str, count: int, half_width: float) -> None:
    pass


def measure(
    call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress = _silent, pause: Pause | None = None
) -> Phases:
    """Time ``call`` as ``plan`` says: once cold, then warm-up, then steady samples, by turns where ``pause`` is given.

    Garbage is collected before and not during the steady phase, as ``timeit`` does.
    """
    progress("cold", 0, float("inf"))
    cold = clock.time(call).seconds
    warmup, warmup_end = _warm_up(call, clock, plan, progress)
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        samples, stop = _sample(call, clock, plan, progress, pause)
    finally:
        if was_enabled:
            gc.enable()
    return Phases(
        cold,
        tuple(warmup),
        tuple(sample.seconds for sample in samples),
        warmup_end,
        stop,
        tuple(sample.issue for sample in samples if sample.issue is not None),
        tuple(sample.device for sample in samples if sample.device is not None),
    )


def _warm_up(call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress) -> tuple[list[float], str]:
    seconds: list[float] = []
    if plan.warmup is not None:
        for _ in range(plan.warmup):
            seconds.append(clock.time(call).seconds)
            progress("warm-up", len(seconds), float("inf"))
        return seconds, "fixed"
    started = checked = perf_counter()
    while True:
        seconds.append(clock.time(call).seconds)
        now = perf_counter()
        if now - checked < TURN_SECONDS / 10:
            continue
        checked = now
        progress("warm-up", len(seconds), float("inf"))
        window = max(WARMUP_WINDOW, len(seconds) // 4)
        if now - started >= WARMUP_LEAST_SECONDS and stats.is_settled(seconds, window):
            return seconds, "settled"
        if now - started > WARMUP_CAP_SECONDS and len(seconds) >= 2:
            return seconds, "cap" if len(seconds) >= 2 * WARMUP_WINDOW else "few"


def _sample(
    call: Callable[[], Any], clock: Clock, plan: Plan, progress: Progress, pause: Pause | None
) -> tuple[list[Sample], str]:
    samples: list[Sample] = []
    spent, half_width = 0.0, math.inf
    while True:
        precise = plan.iterations is None and half_width <= plan.half_width and len(samples) >= stats.BATCHES
        if precise and pause is None:
            return samples, "interval"
        if pause is not None:
            if not pause(precise):
                return samples, "interval"
            if samples and samples[-1].seconds < COLD_CACHE_SECONDS:
                call()
        started = now = perf_counter()
        while now - started < TURN_SECONDS and len(samples) != plan.iterations:
            samples.append(clock.time(call))
            now = perf_counter()
        spent += now - started
        if len(samples) >= LEAST_SAMPLES:
            half_width = stats.process_interval([sample.seconds for sample in samples]).half_width
        progress("steady", len(samples), half_width)
        if len(samples) == plan.iterations:
            return samples, "iterations"
        if plan.iterations is None and spent >= plan.max_seconds and len(samples) >= LEAST_SAMPLES:
            return samples, "time limit"

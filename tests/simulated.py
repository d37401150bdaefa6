"""Simulated samples with known truth, for tests of statistics and of what is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np


def autoregressive(generator: np.random.Generator, count: int, rho: float, spread: float = 0.05) -> list[float]:
    """Log-normal AR(1) samples with true median 1 and lag-1 correlation ``rho``."""
    noise = generator.normal(0, spread * math.sqrt(1 - rho * rho), count)
    noise[0] = generator.normal(0, spread)
    level = 0.0
    values: list[float] = []
    for step in noise:
        level = rho * level + step if values else step
        values.append(math.exp(level))
    return values


def heavy_processes(generator: np.random.Generator, count: int) -> list[list[float]]:
    """``count`` processes whose levels differ by 2 % with the heavy tails of Student's t(3)."""
    shifts = generator.standard_t(3, count) * 0.02
    return [[math.exp(s) * x for x in autoregressive(generator, 40, 0.6, 0.02)] for s in shifts]


def levels(generator: np.random.Generator, count: int, spread: float, scale: float = 1.0) -> list[list[float]]:
    """``count`` processes of one sample each: log-normal with true median ``scale``."""
    return [[scale * math.exp(each)] for each in generator.normal(0, spread, count)]


def binomial_error(probability: float, trials: int) -> float:
    """Three standard errors of a proportion."""
    return 3 * math.sqrt(probability * (1 - probability) / trials)


def nested(
    generator: np.random.Generator, processes: int, seconds: float, *, between: float, tau2: float, sample: float
) -> Iterator[list[float]]:
    """Processes whose samples of ``sample`` seconds vary around levels that vary: the model of ``stats.Components``."""
    count = max(1, round(seconds / sample))
    for shift in generator.normal(0, math.sqrt(between), processes):
        yield [sample * math.exp(shift + each) for each in generator.normal(0, math.sqrt(tau2 / sample), count)]

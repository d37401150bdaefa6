"""Synthetic recordings of a machine whose speed moves, for tests of the benchmarks that replay recordings."""

from __future__ import annotations

import math

import numpy as np
import recordings

LABELS = ("fp32", "bf16")


def recorded(
    sessions: int = 3,
    rounds: int = 12,
    *,
    drift: float = 0.1,
    noise: float = 0.01,
    seconds: float = 2.0,
    seed: int = 0,
) -> recordings.Recording:
    """Two workloads in fp32 and bf16 on a machine whose speed moves by ``drift`` (standard deviation) from round to
    round; ``noise`` is what each process adds."""
    generator, processes = np.random.default_rng(seed), []
    for session in range(sessions):
        speeds = generator.normal(0, drift, (2, rounds))
        for number, workload in enumerate(("one", "two")):
            for place, label in enumerate(LABELS):
                for index in range(rounds):
                    speed = speeds[number, index]
                    level = 0.1 * (1 + place) * math.exp(speed + generator.normal(0, noise))
                    samples = level * np.exp(generator.normal(0, 0.01, max(3, round(seconds / level))))
                    processes.append(
                        recordings.Process(
                            workload,
                            label,
                            label,
                            session,
                            index,
                            10.0 * index,
                            3.0,
                            tuple(map(float, samples)),
                        )
                    )
    machine = recordings.Machine("synthetic", 2, "2.10.0", "abc")
    return recordings.Recording(machine, tuple(f"session {n}" for n in range(sessions)), tuple(processes))

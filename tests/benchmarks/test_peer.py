"""benchmarks/peer.py: the time to ±5 % of two sides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import peer



def timed(spread: float, wall: float, seed: int) -> list[peer.Timed]:
    """16 processes of one sample."""
    generator = np.random.default_rng(seed)
    return [peer.Timed([math.exp(level)], wall) for level in generator.normal(0, spread, 16)]


def test_time_to_five_percent() -> None:
    """The first process counts as it was, each further one as the mean of the others."""
    levels = [0.0, 0.1, 0.0, 0.1, 0.0, 0.1]
    needed, seconds = peer.time_to_margin(levels, [20.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    assert seconds == 20 + 10 * (needed - 1)
    assert peer.time_to_margin(levels, [10.0] * 6, 0.2)[0] < needed


def test_the_claim_about_the_peer(capsys: Any) -> None:
    """A narrower spread in half the wall time per process is enough; the reverse is not."""
    assert peer.judge(timed(0.05, 9.0, 1), timed(0.1, 18.0, 2), "protocol")[0].holds
    assert not peer.judge(timed(0.1, 18.0, 2), timed(0.05, 9.0, 1), "protocol")[0].holds
    assert "the suite" in capsys.readouterr().out


def test_pairs_that_met_other_load_are_left_out_of_the_claim(capsys: Any) -> None:
    """A burst that one side met takes the other's process with it; the table of all pairs is printed before."""
    ours, theirs = timed(0.05, 9.0, 1), timed(0.1, 18.0, 2)
    ours[3] = peer.Timed([5.0, 5.1], 9.0)
    assert not peer.is_disturbed(peer.Timed([1.0] * 18 + [5.0, 5.0], 9.0), 1.0)  # a tenth
    assert [len(side) for side in peer.undisturbed(ours, theirs)] == [15, 15]
    assert peer.judge(ours, theirs, "protocol")[0].holds
    assert "without the 1 of 16 pairs that met a burst of other load:" in capsys.readouterr().out

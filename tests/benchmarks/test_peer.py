"""benchmarks/peer.py and benchmarks/peer_process.py: the time to ±5 % of two sides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import peer
import peer_process
import pytest

from modelzoo.records.machine import Threads


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


def test_processes_are_taken_in_turn_and_kept(tmp_path: Path) -> None:
    """A B, B A; the file can be judged again."""
    order: list[str] = []

    def side(name: str) -> Iterator[peer.Timed]:
        while True:
            order.append(name)
            yield peer.Timed([1.0], 1.0)

    sides = peer.in_turn(side("a"), side("b"), 3, tmp_path / "kept.json")
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [len(each) for each in sides] == [3, 3]
    kept = peer.read(tmp_path / "kept.json")
    assert [[each.level for each in side] for side in kept] == [[each.level for each in side] for side in sides]


def test_how_long_the_suite_samples_follows_from_its_first_processes() -> None:
    """3 s at first."""
    assert peer.chosen_seconds([]) == peer.FIRST_SECONDS
    taken = [peer.Timed([1.0, 1.1, 1.0], 9.0), peer.Timed([1.2, 1.1, 1.2], 9.0), peer.Timed([0.9, 1.0, 0.9], 9.0)]
    assert peer.SECONDS[0] <= peer.chosen_seconds(taken) <= peer.SECONDS[1]


def test_the_protocol_in_plain_code(tmp_path: Path) -> None:
    """A small BERT is saved, and timed at least 10 times."""
    import torch

    peer_process.save(tmp_path, num_hidden_layers=1, hidden_size=24, intermediate_size=48, vocab_size=50)
    threads = torch.get_num_threads()
    # Two threads of so small a model wait for each other, for minutes if other programs run.
    torch.set_num_threads(1)
    try:
        samples = peer_process.emulated(tmp_path, 0)
    finally:
        torch.set_num_threads(threads)
    assert len(samples) == peer_process.LEAST_CALLS
    assert min(samples) > 0


def test_the_protocol_runs_in_processes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many threads as the suite's workers; the samples are the last line, and an error ends the benchmark."""
    program = tmp_path / "process.py"
    program.write_text("import os, sys; print(sys.argv[1:]); print([float(os.environ['OMP_NUM_THREADS'])])")
    monkeypatch.setattr(peer, "PROCESS", program)
    monkeypatch.setattr(peer, "usable_threads", lambda: Threads(3, 3, 3, None))
    (found,) = islice(peer.peer(tmp_path, 0, None), 1)
    assert found.samples == [3.0]
    assert found.wall > 0
    program.write_text("raise SystemExit('no such model')")
    with pytest.raises(SystemExit, match="no such model"):
        next(peer.peer(tmp_path, 0, None))

"""What the benchmark of the generator computes."""

from __future__ import annotations

import load_generator
import pytest
from load_generator import TimedServer, late, quantile, theory, waits_of

from modelzoo.serve.generator import serve


def test_the_server_takes_its_time() -> None:
    """By the real clock, and never less."""
    found = serve(TimedServer(2e-3), [0.0, 0.001, 0.02], load_generator.FIFO)
    assert all(reply - start >= 2e-3 for reply, start in zip(found.replied, found.dispatched))
    assert waits_of(found)[1] >= 1e-3


def test_the_recursion_is_compared_with_theory(capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer arrivals than the benchmark has, which therefore scatter more."""
    (recursion,) = theory(0, arrivals=40_000)
    assert "90%" in capsys.readouterr().out
    assert recursion.what.startswith("the recursion is within 5 % of M/D/1")


def test_the_lateness_of_a_valid_run_changes_little(capsys: pytest.CaptureFixture[str]) -> None:
    """Its latencies are a little longer, never shorter."""
    (claim,) = late(0, arrivals=40_000)
    assert claim.holds
    assert "-" not in capsys.readouterr().out.splitlines()[-1]


def test_a_quantile_is_a_sample() -> None:
    """By nearest rank."""
    assert quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert quantile([1.0], 0.99) == 1.0

"""benchmarks/adjusting.py: what the reference load is worth, on machines with known behaviour."""

from __future__ import annotations

from typing import Any

import adjusting
import claims
from synthetic_recordings import recorded


def test_the_load_narrows_intervals_if_it_follows_the_machine() -> None:
    """In and out of sample, if the machine is unsteady; a load that says nothing is left out."""
    found = adjusting.gains(recorded())
    assert len(found) == 3 * 4
    for gain in found:
        assert gain.unsteady and gain.adjusted
        assert gain.workloads is not None and gain.sessions is not None
        assert max(gain.suite, gain.workloads, gain.sessions) < 0.5
    steady = adjusting.gains(recorded(drift=0.0))
    assert all(not gain.unsteady and not gain.adjusted and gain.suite == gain.sessions == 1 for gain in steady)


def test_claims_about_the_load_are_judged_out_of_sample(capsys: Any) -> None:
    """Within sessions and between them; too few sessions show nothing."""
    assert all(claim.holds for claim in adjusting.show_within(recorded()))
    moved = recorded(sessions=4, rounds=8, drift=0.2)
    assert len(adjusting.show_between(moved)) == 4
    assert [claim.holds for claim in adjusting.show_between(recorded(sessions=2))] == [None] * 4
    assert claims.conclude([claims.Claim("nothing", None)]) == 1
    assert "not shown: nothing" in capsys.readouterr().out

"""Virtual time passes only while something is waited for."""

from __future__ import annotations

import math

import pytest

from modelzoo.serve.servers import VirtualServer


def test_the_clock_moves_to_replies_and_deadlines() -> None:
    """Whichever comes first; replies of the same moment come together."""
    server = VirtualServer(2, lambda size: float(size))
    server.start(0, 2)
    server.start(1, 2)
    assert server.wait(0.5) == ()
    assert server.now() == 0.5
    assert [(reply.instance, reply.started, reply.ended) for reply in server.wait(math.inf)] == [(0, 0, 2), (1, 0, 2)]
    assert server.now() == 2.0


def test_waiting_for_nothing_is_an_error() -> None:
    """It would never end."""
    with pytest.raises(RuntimeError, match="nothing runs"):
        VirtualServer(1, float).wait(math.inf)

"""Python's garbage collector while something is timed."""

from __future__ import annotations

import gc

import pytest

from modelzoo.measure.sampler import without_collection


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_off_inside_and_afterwards_as_before(enabled: bool) -> None:
    """Also if what was timed fails."""
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError), without_collection():
            assert not gc.isenabled()
            raise ZeroDivisionError
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()

"""When a call is bound by launching."""

from __future__ import annotations

import pytest

from modelzoo.records.accelerator import bound_by_launching


@pytest.mark.parametrize(
    ("issue", "device", "kernels", "expected"),
    [
        (1e-3, 1.05e-3, None, True),
        (1e-3, 1.05e-3, 0.2e-3, True),
        # The kernels fill the device time, so the host waited for the device: a full queue, a value that was read.
        (1e-3, 1.05e-3, 1.0e-3, False),
        (0.1e-3, 1e-3, None, False),
        (0.8e-3, 1e-3, None, True),
        (1e-3, 0.0, None, False),
    ],
)
def test_issue_time_near_device_time(issue: float, device: float, kernels: float | None, expected: bool) -> None:
    """Unless the device was busy all the time."""
    assert bound_by_launching(issue, device, kernels) is expected

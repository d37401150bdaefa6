"""Whether the outputs of a pass that is observed differ from those of one that is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from modelzoo.evidence.probes import differ, kept

ONES, ROUNDED, OTHERS = torch.ones(4), torch.ones(4) + 2**-22, torch.ones(4) * 1.01


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        ([ONES, ONES], False),
        ([ONES, ROUNDED], False),
        ([ONES, OTHERS], True),
        ([ONES], True),
        ([ONES, ONES.bfloat16()], True),
    ],
)
def test_any_output_that_differs_is_seen(observed: Sequence[torch.Tensor], expected: bool) -> None:
    """One of several is enough, or one that is missing; the rounding of fp32 is not."""
    assert differ(kept([ONES, ONES]), observed) is expected

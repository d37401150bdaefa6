"""Operands are converted to bf16 by autocast or by a cast, and only then."""

from __future__ import annotations

import pytest
import torch

from modelzoo.engines.torch import precision
from modelzoo.setting import Setting


@pytest.mark.parametrize(
    ("setting", "active"),
    [
        (Setting("bf16", "autocast"), True),
        (Setting("bf16", "cast"), False),
        (Setting("bf16", "fastmath"), False),
        (Setting(), False),
    ],
)
def test_autocast_is_active_for_autocast_alone(setting: Setting, active: bool) -> None:
    """The other methods, and fp32, run without it."""
    with precision.autocast(setting):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (product.dtype == torch.bfloat16) is active


def test_cast_converts_every_floating_point_tensor_and_nothing_else() -> None:
    """Lists, tuples and dicts are searched; ids and text stay as they are."""
    ids = torch.ones(2, dtype=torch.long)
    found = precision.cast({"a": [torch.ones(2)], "b": (ids, "text"), "c": 3})
    assert found["a"][0].dtype == torch.bfloat16
    assert found["b"][0] is ids
    assert (found["b"][1], found["c"]) == ("text", 3)

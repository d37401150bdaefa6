"""Tensors in nested values."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import torch

from modelzoo.engines.torch.precision import mapped


class Output(OrderedDict[str, Any]):
    """A mapping with a class of its own, made from keywords, like the outputs of transformers."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)


class Pair(NamedTuple):
    """A tuple with names."""

    first: Any
    second: Any


def test_every_tensor_is_replaced_and_every_container_keeps_its_type() -> None:
    """Whatever is no tensor stays as it is."""
    value = {"a": [torch.ones(1), "text"], "b": Output(x=(torch.ones(1), 3)), "c": Pair(torch.ones(1), None)}
    found = mapped(value, lambda tensor: tensor + 1)
    assert found == {"a": [torch.full((1,), 2.0), "text"], "b": Output(x=(torch.full((1,), 2.0), 3)), "c": found["c"]}
    assert type(found["b"]) is Output
    assert (found["c"].first.item(), found["c"].second) == (2.0, None)

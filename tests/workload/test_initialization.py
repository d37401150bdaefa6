"""A model whose weights are loaded afterwards is built without initial values, if nothing else depends on them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from modelzoo.workload import skip_initialization


class WithBuffer(nn.Module):
    """A linear layer, and a buffer made by ``make`` of its weight, which is in the state dict if it is persistent."""

    def __init__(self, make: Callable[[Any], Any], persistent: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("other", make(self.layer.weight), persistent=persistent)


def with_attribute(make: Callable[[Any], Any]) -> Any:
    """A linear layer, and a tensor made by ``make`` in a list that is no part of the module's state."""
    layer = nn.Linear(3, 2)
    layer.others = [make(layer.weight)]
    return layer


def skipped(build: Callable[[], Any]) -> tuple[Any, int]:
    """The model that is built without initial values, and how often it was built."""
    calls: list[None] = []
    return skip_initialization(lambda: calls.append(None) or build()), len(calls)


def older_style() -> Any:
    """A module that initializes its weights below autograd, as older models of transformers do."""
    layer = nn.Linear(3, 2)
    layer.weight.data.normal_(mean=0.0, std=0.02)
    return layer


def probed() -> Any:
    """A network that runs itself to find out its number of channels, as torchvision's SSD does."""
    layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4))
    assert layers(torch.zeros(1, 1, 8, 8)).shape[1] == 4
    return layers


@pytest.mark.parametrize(
    "build",
    [
        lambda: nn.Linear(3, 2),
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Embedding(5, 4, padding_idx=0)),
        lambda: nn.LSTM(3, 4),
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False),
        lambda: WithBuffer(lambda weight: torch.arange(4)),
        lambda: WithBuffer(torch.clone, persistent=True),
        lambda: with_attribute(lambda weight: torch.ones(weight.shape)),
        lambda: with_attribute(lambda weight: iter(weight)),
        older_style,
        probed,
    ],
)
def test_values_that_are_loaded_later_are_not_drawn(build: Callable[[], Any]) -> None:
    """The model is built once, draws no random number, and is the same as any other with these weights."""
    torch.manual_seed(3)
    reference = build()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    model, calls = skipped(build)
    assert calls == 1
    assert torch.equal(before, torch.get_rng_state())
    model.load_state_dict(copy.deepcopy(reference.state_dict()))
    for name, tensor in reference.state_dict().items():
        assert model.state_dict()[name].equal(tensor)
        assert model.state_dict()[name].stride() == tensor.stride()
    assert dict(model.named_buffers()).keys() == dict(reference.named_buffers()).keys()


@pytest.mark.parametrize(
    "build",
    [
        lambda: WithBuffer(lambda weight: torch.empty(4).normal_()),
        lambda: WithBuffer(lambda weight: nn.init.kaiming_uniform_(torch.empty(4, 4))),
        lambda: WithBuffer(lambda weight: weight.detach().clone()),
        lambda: WithBuffer(lambda weight: torch.randn(4)),
        lambda: with_attribute(lambda weight: torch.empty(4).uniform_(1, 2)),
        lambda: with_attribute(lambda weight: 2 * weight.detach()),
        lambda: with_attribute(lambda weight: weight.detach()[0].sum().item()),
        lambda: with_attribute(lambda weight: torch.tensor(weight.tolist())),
        lambda: with_attribute(lambda weight: nn.init.orthogonal_(torch.empty(3, 3))),
        lambda: with_attribute(lambda weight: iter(weight.detach() + 1)),
        lambda: nn.utils.weight_norm(nn.Linear(3, 2)),
    ],
)
def test_a_model_that_holds_other_random_values_is_built_normally(build: Callable[[], Any]) -> None:
    """Its constants are those that the seed gives."""
    torch.manual_seed(3)
    reference = build()
    torch.manual_seed(3)
    model, calls = skipped(build)
    assert calls == 2
    for name, tensor in (*reference.named_parameters(), *reference.named_buffers()):
        found = dict((*model.named_parameters(), *model.named_buffers()))[name]
        assert found.equal(tensor)

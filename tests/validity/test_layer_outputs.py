"""Observing layers: what is kept, and what counts as finite."""

from __future__ import annotations

from typing import Any

import torch
from validity.toys import Make

from modelzoo.validity.finite import places
from modelzoo.validity.layers import MAXIMUM_SAMPLE, OUTPUT, observe


def test_what_is_kept_of_a_layer_is_small(predictor: Make) -> None:
    """A sample, not a view that would keep the whole output of every layer in memory."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 24, 3), torch.nn.ReLU())
    observed = observe(predictor(model), (torch.rand(4, 3, 64, 64),), lambda name: True, lambda output: output)
    assert list(observed) == ["0", "1", OUTPUT]
    for name, output in ((name, each.sample) for name, each in observed.items()):
        assert output.numel() <= MAXIMUM_SAMPLE + 1, name
        storage = output.untyped_storage()
        assert len(storage) <= 4 * (MAXIMUM_SAMPLE + 1), name


def test_a_layer_that_is_called_twice_has_two_entries(predictor: Make) -> None:
    """The second call does not replace the first."""

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    observed = observe(predictor(Twice()), (torch.ones(1, 4),), lambda name: True, lambda output: output)
    assert list(observed) == ["layer", "layer#2", OUTPUT]
    assert observed["layer"].kind == "Linear"


def test_places_that_are_not_finite_are_told_apart() -> None:
    """In lists, tuples and dicts of tensors; by tensor, place and kind."""
    good = ({"a": [torch.ones(2)]}, torch.tensor([1]))
    assert places(good) == ""
    bad = [places((good, [torch.tensor(values)])) for values in ([1.0, torch.inf], [1.0, -torch.inf], [torch.inf, 1.0])]
    assert "" not in bad
    assert len(set(bad)) == 3
    assert places((good, [torch.tensor([9.0, torch.inf])])) == bad[0]

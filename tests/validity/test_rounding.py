"""The yardstick: what rounding explains, and faults that it does not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable

import pytest

from modelzoo.validity import Side, ValidityRequest
from modelzoo.validity.explain import explained, first_suspect, table
from modelzoo.validity.outcome import Job
from modelzoo.validity.rounding import (
    OUTPUT,
    SAMPLED,
    all_finite,
    layer_errors,
    observable,
    observe,
    relative_error,
    rounded_by_hand,
    scale,
)


def network() -> Any:
    """Eight convolutions with batch norm, seeded."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[Any] = []
    channels = 3
    for _ in range(8):
        layers += [nn.Conv2d(channels, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24), nn.ReLU()]
        channels = 24
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(24 * 64, 1000))
    model.train()
    with torch.no_grad():
        for _ in range(5):
            model(torch.randn(8, 3, 32, 32))
    return model.eval()


@pytest.fixture(scope="module")
def model() -> Any:
    return network()


def arguments() -> tuple[Any, ...]:
    import torch

    return (torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1)),)


def errors(reference: Side, tested: Side) -> Any:
    return layer_errors(reference, tested, arguments(), lambda name: True, lambda output: output)


def test_autocast_errs_as_much_as_rounding_by_hand(model: Any, side: Callable[..., Side]) -> None:
    """Every layer within a factor of two of the yardstick, the output last, and no suspect."""
    layers = errors(side(model), side(model, "bf16"))
    assert layers[-1].name == OUTPUT
    assert len(layers) == len(list(model)) + 1
    assert all(layer.ratio < 2 for layer in layers)
    assert max(layer.error for layer in layers) > 1e-3
    assert first_suspect(layers, {}) is None


@pytest.mark.parametrize("place", [0, 9, 13, 22])
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_a_layer_scaled_by_five_per_cent_is_named(
    model: Any, side: Callable[..., Side], place: int, factor: float
) -> None:
    """A convolution, batch norm or later one with changed weights: the first suspect is that layer."""
    import torch

    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[place].weight.mul_(factor)
    culprit = first_suspect(errors(side(model), side(faulty, "bf16")), {})
    assert culprit is not None
    assert culprit.name == str(place)


def test_fp32_against_fp32_has_no_error(model: Any, side: Callable[..., Side]) -> None:
    """And a fault of one per mille in fp32 is found, since nothing explains it."""
    import torch

    assert max(layer.error for layer in errors(side(model), side(model))) == 0
    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[3].weight.mul_(1.001)
    culprit = first_suspect(errors(side(model), side(faulty)), {})
    assert culprit is not None
    assert culprit.name == "3"


def test_the_weights_are_put_back(model: Any) -> None:
    """Also where the pass in between fails; no hook stays behind."""
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="in between"), rounded_by_hand(model):
        assert not model[0].weight.equal(before["0.weight"])
        raise RuntimeError("in between")
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_attention_that_is_written_out_is_rounded_too(side: Callable[..., Side]) -> None:
    """Its scores are products outside of any layer; a softmax enlarges what bf16 rounded off them."""
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.query, self.key = nn.Linear(64, 64), nn.Linear(64, 64)
            self.weights = nn.Identity()

        def forward(self, x: Any) -> Any:
            scores = torch.matmul(4 * self.query(x), 4 * self.key(x).transpose(1, 2))
            return self.weights(scores.softmax(-1)) @ x

    model = Attention().eval()
    args = (torch.randn(2, 64, 64, generator=torch.Generator().manual_seed(1)),)
    for through in (model, lambda x: 1.2 * model(x)):
        found = layer_errors(side(model), side(model, "bf16", through), args, lambda name: True, lambda output: output)
        layers = {layer.name: layer for layer in found}
        assert layers["weights"].error > 0.01
        assert layers["weights"].ratio < 1.25  # 1.5 where only layers are rounded
        assert (layers[OUTPUT].ratio < 2) == (through is model)


def test_a_traced_model_shows_its_output_only(model: Any, side: Callable[..., Side]) -> None:
    """Its layers cannot be hooked; its output is compared with the yardstick all the same."""
    import torch

    traced = torch.jit.trace(model, arguments())
    tested = side(traced, "bf16")
    assert not observable(tested)
    layers = errors(side(model), tested)
    assert [layer.name for layer in layers] == [OUTPUT]
    assert layers[0].ratio < 2


def test_nan_in_a_layer_is_seen_where_it_begins(model: Any, side: Callable[..., Side]) -> None:
    """The first suspect is the layer that holds it."""
    import torch

    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[12].weight[0, 0, 0, 0] = torch.nan
    layers = errors(side(model), side(faulty, "bf16"))
    culprit = first_suspect(layers, {})
    assert culprit is not None
    assert (culprit.name, culprit.finite) == ("12", False)


def test_what_is_kept_of_a_layer_is_small(model: Any, side: Callable[..., Side]) -> None:
    """A sample, not a view that would keep the whole output of every layer in memory."""
    seen = observe(side(model), arguments(), lambda name: True)
    for name, output in seen.outputs.items():
        assert output.numel() <= SAMPLED + 1, name
        assert output.storage_offset() == 0
        assert len(output.untyped_storage() if hasattr(output, "untyped_storage") else output.storage()) <= (
            4 * (SAMPLED + 1)
        ), name


def test_scale_and_its_error() -> None:
    """A factor is found with a tiny error; noise has a scale within three of its errors."""
    import torch

    generator = torch.Generator().manual_seed(0)
    values = torch.randn(40_000, generator=generator)
    factor, error = scale(values * 1.05, values)
    assert factor == pytest.approx(0.05, abs=1e-6)
    assert error < 1e-6
    noise = 0.2 * torch.randn(40_000, generator=generator)
    factor, error = scale(values + noise, values)
    assert abs(factor) < 3 * error
    assert scale(values, torch.zeros_like(values)) == (0, 0)


def test_relative_error_of_zero_and_of_nan() -> None:
    """Zero against zero is 0, something against zero is 1, NaN stays NaN."""
    import torch

    zero, one = torch.zeros(3), torch.ones(3)
    assert relative_error(zero, zero) == 0
    assert relative_error(one, zero) == 1
    assert relative_error(one * torch.nan, one) != relative_error(one * torch.nan, one)


def test_all_finite_looks_into_nested_outputs() -> None:
    """Lists, tuples and dicts of tensors."""
    import torch

    good = ({"a": [torch.ones(2)]}, torch.tensor([1]))
    assert all_finite(good)
    assert not all_finite((good, [torch.tensor([1.0, torch.inf])]))


def test_explain_writes_a_plot_and_names_the_layer(model: Any, side: Callable[..., Side], tmp_path: Path) -> None:
    """A CSV with every layer, a PNG, and a table whose note names the first suspect."""
    import torch
    from PIL import Image

    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[9].weight.mul_(1.05)
    reference, tested = side(model), side(faulty, "bf16")
    layers = errors(reference, tested)
    request = ValidityRequest(tmp_path, explain=True)
    listing, plot = explained(layers, Job("toy", None, reference, tested, request))
    assert len(Path(listing).read_text().splitlines()) == len(layers) + 1
    with Image.open(plot) as picture:
        assert picture.size[0] >= 1000
    assert "9 (Conv2d)" in table(layers, {}).note
    assert "cannot be seen" in table((), {}).note

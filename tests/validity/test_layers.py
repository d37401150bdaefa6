"""Errors by layer: the expected ones, faults that exceed them, what is kept of a layer, and what --explain shows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from validity.toys import autocast, predictor

from modelzoo.frozen import replace
from modelzoo.records.partial import LayerError
from modelzoo.validity import Predictor, TaskContext, ValidityRequest
from modelzoo.validity.checks import FP32_DRIFT
from modelzoo.validity.layers import (
    MAXIMUM_SAMPLE,
    OUTPUT,
    exhibits,
    explained,
    first_suspect,
    is_observable,
    layer_errors,
    observe,
    scale_change,
)


@pytest.fixture(scope="module")
def model() -> Any:
    """Four convolutions with batch norm, seeded."""
    torch.manual_seed(0)
    layers: list[Any] = []
    for channels in (3, 16, 16, 16):
        layers += [nn.Conv2d(channels, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(16 * 64, 600))
    with torch.no_grad():
        for _ in range(5):
            model.train()(torch.randn(8, 3, 16, 16))
    return model.eval()


def arguments() -> tuple[Any, ...]:
    return (torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1)),)


def culprit_of(layers: tuple[LayerError, ...]) -> LayerError | None:
    """The first suspect layer."""
    suspect = first_suspect(layers, {})
    return None if suspect is None else layers[suspect]


def errors(reference: Predictor, tested: Predictor, args: tuple[Any, ...] | None = None) -> Any:
    return layer_errors(reference, tested, args or arguments(), lambda name: True, lambda output: output)[0]


def test_the_errors_of_autocast_are_those_of_the_baseline(model: Any) -> None:
    """Every layer is within a factor of two of the baseline, the output last, and no suspect."""
    layers = errors(predictor(model), autocast(model))
    assert layers[-1].name == OUTPUT
    assert len(layers) == len(list(model)) + 1
    assert all(layer.ratio < 2 for layer in layers)
    assert max(layer.error for layer in layers) > 1e-3
    assert culprit_of(layers) is None


@pytest.mark.parametrize(("place", "factor"), [(0, 0.95), (7, 1.05), (9, 0.95)])
def test_a_layer_scaled_by_five_per_cent_is_named(model: Any, place: int, factor: float) -> None:
    """A convolution or a batch norm with changed weights: the first suspect is that layer."""
    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[place].weight.mul_(factor)
    culprit = culprit_of(errors(predictor(model), autocast(faulty)))
    assert culprit is not None and culprit.name == str(place)


def test_fp32_against_fp32_has_no_error(model: Any) -> None:
    """A fault of one per mille in fp32 is found, since nothing explains it."""
    assert max(layer.error for layer in errors(predictor(model), predictor(model))) == 0
    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[3].weight.mul_(1.001)
    culprit = culprit_of(errors(predictor(model), predictor(faulty)))
    assert culprit is not None and culprit.name == "3"


def test_a_network_that_magnifies_rounding_is_not_held_to_a_fixed_bound() -> None:
    """A small difference of large values: one step of fp32 in the input is more than the usual bound in the output."""

    class Difference(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = factor

        def forward(self, x: Any) -> Any:
            return self.factor * x - 1000

    (args,) = arguments()
    for factor, is_explained in ((1 + 1e-6, True), (1 + 1e-4, False)):
        models = predictor(Difference(1.0)), predictor(Difference(factor))
        (layer,) = errors(*models, (1000 + args,))
        assert layer.error is not None and layer.error > 1e-4
        assert 1e-3 < layer.baseline < 1e-2
        assert (culprit_of((layer,)) is None) == is_explained
    (layer,) = errors(*models, (torch.arange(4),))
    assert layer.baseline == FP32_DRIFT


@pytest.mark.filterwarnings("ignore:.*jit.*:DeprecationWarning")
def test_attention_that_is_written_out_is_rounded_too() -> None:
    """Its scores are products outside of any layer, and softmax amplifies their rounding error."""

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
        layers = {layer.name: layer for layer in errors(predictor(model), autocast(model, through), args)}
        assert layers["weights"].error > 0.01
        assert layers["weights"].ratio < 1.25  # 1.5 if only layers are rounded
        assert (layers[OUTPUT].ratio < 2) == (through is model)


def test_a_traced_model_shows_its_output_only(model: Any) -> None:
    """Its layers cannot be hooked; its output is compared with the baseline all the same."""
    traced = torch.jit.trace(model, arguments())
    tested = autocast(traced)
    assert not is_observable(tested)
    layers = errors(predictor(model), tested)
    assert [layer.name for layer in layers] == [OUTPUT]
    assert layers[0].ratio < 2


def test_a_reference_that_cannot_be_observed_has_no_baseline(model: Any) -> None:
    """The expected rounding error is unknown; in fp32 the fixed bound does."""
    hidden = replace(predictor(model), model=None)
    (layer,) = errors(hidden, autocast(model))
    assert (layer.name, layer.baseline, layer.ratio) == (OUTPUT, None, None)
    assert layer.error is not None and layer.error > 1e-3
    (layer,) = errors(hidden, predictor(model))
    assert layer.baseline is not None and layer.baseline >= FP32_DRIFT


def test_the_rounding_of_a_static_recipe_is_not_known(model: Any) -> None:
    """Its ranges come from other inputs: no error is called a fault, and none is called explained."""
    tested = replace(predictor(model), precision="int8", recipe="static")
    layers = errors(predictor(model), tested)
    assert {(layer.baseline, layer.ratio) for layer in layers} == {(None, None)}
    assert culprit_of(layers) is None
    known = errors(predictor(model), replace(tested, recipe="torchao"))
    assert known[-1].name == OUTPUT and known[-1].baseline


def test_nan_is_attributed_to_the_layer_where_it_begins(model: Any) -> None:
    """The first suspect is the layer that holds it, and its error has no value."""
    faulty = copy.deepcopy(model)
    with torch.no_grad():
        faulty[6].weight[0, 0, 0, 0] = torch.nan
    layers = errors(predictor(model), autocast(faulty))
    culprit = culprit_of(layers)
    assert (culprit.name, culprit.finite, culprit.error, culprit.ratio) == ("6", False, None, None)


def test_scale_and_its_error() -> None:
    """A factor is found with a tiny error; noise has a scale within three of its errors."""
    generator = torch.Generator().manual_seed(0)
    values, noise = (torch.randn(40_000, generator=generator) for _ in range(2))
    assert scale_change(values * 1.05, values) == (pytest.approx(0.05, abs=1e-6), pytest.approx(0, abs=1e-6))
    factor, error = scale_change(values + 0.2 * noise, values)
    assert abs(factor) < 3 * error
    assert scale_change(values, torch.zeros_like(values)) == (0, 0)


def test_a_small_sample_is_kept_of_each_call_of_a_layer() -> None:
    """Not a view, which would keep the whole output in memory; the second call does not replace the first."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(24, 24, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(self.layer(x))

    observed = observe(predictor(Twice()), (torch.rand(4, 24, 48, 48),), lambda name: True, lambda output: output)
    assert list(observed) == ["layer", "layer#2", OUTPUT]
    assert observed["layer"].kind == "Conv2d"
    for each in observed.values():
        assert each.sample.numel() <= MAXIMUM_SAMPLE + 1
        assert len(each.sample.untyped_storage()) <= 4 * (MAXIMUM_SAMPLE + 1)


GOOD = LayerError("a", "Conv2d", 0.004, 0.0, 0.001, 0.004, 0.0, True)
LAYERS = (
    GOOD,
    replace(GOOD, name="b", error=0.011),
    replace(GOOD, name="c", error=0.1),
    replace(GOOD, name="d", error=None, scale=None, finite=False),
)


@pytest.mark.parametrize(
    ("layers", "names", "suspect"),
    [(LAYERS, "abcd", 2), ((GOOD, *LAYERS), "abcd", 2), (LAYERS[:2], "ba", None), ((), "", None)],
)
def test_the_first_suspect_is_shown_with_its_neighbours(
    layers: tuple[LayerError, ...], names: str, suspect: int | None
) -> None:
    """Without a suspect, the layers with the largest errors."""
    found = explained(layers, {})
    assert ("".join(each.name for each in found.layers), found.suspect) == (names, suspect)


def test_exhibits_only_on_request() -> None:
    """``--explain`` gives a CSV with every layer and a plot; without it there is nothing."""
    context = TaskContext("toy", ValidityRequest(explain=True, tolerance={"layer_drift": 2.0}), tested_name="bf16")
    listing, plot = exhibits(LAYERS, context)
    assert [row[0] for row in listing.csv.rows] == ["a", "b", "c", "d"]
    assert listing.csv.rows[3] == ("d", "Conv2d", "nan", "0.004", "nan", "False")
    assert (plot.layer_errors.limit, plot.layer_errors.first_suspect) == (2.0, 1)
    silent = replace(context, request=ValidityRequest())
    assert list(exhibits(LAYERS, silent)) == []
    assert list(exhibits((), context)) == []

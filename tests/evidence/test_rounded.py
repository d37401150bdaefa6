"""A model that computes in fp32 with rounded numbers: each precision, each kind of product, and nothing left behind."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from exportable_workloads import hides_vnni
from torch import nn
from torch.nn import functional

from modelzoo.engines.torch.engine import TorchSession
from modelzoo.engines.torch.quantization import quantized, resolve_recipe
from modelzoo.evidence.rounded import rounded, rounded_to
from modelzoo.setting import ResolvedSetting, Setting, choices
from modelzoo.validity import Predictor
from modelzoo.validity.layers import layer_errors

STEPS = {"bf16": 2.0**-8, "fp16": 2.0**-11, "tf32": 2.0**-11}


@pytest.mark.parametrize("precision", sorted(STEPS))
def test_rounding_changes_a_number_by_half_a_step_at_most(precision: str) -> None:
    """Relatively, and no more than once."""
    values = torch.randn(10_000)
    once = rounded(values, precision)
    assert 0.9 * STEPS[precision] < ((once - values) / values).abs().max().item() <= STEPS[precision]
    assert rounded(once, precision).equal(once)


@pytest.mark.filterwarnings("ignore:Currently, qnnpack incorrectly ignores reduce_range:UserWarning")
@pytest.mark.parametrize(
    "recipe", [name for name in choices("recipe") if name not in ("dynamic", "static") and "-per-" not in name]
)
def test_a_quantized_model_is_predicted_to_the_last_digits(recipe: str) -> None:
    """Scales, zero points and ranges are those of the kernels: what is left is the order of fp32 sums."""
    if recipe in ("torchao", "weight-only"):
        pytest.importorskip("torchao", reason="torchao is not installed: pip install torchao==0.16.0")
        if recipe == "torchao" and hides_vnni():
            pytest.skip("the limit on oneDNN's instruction set hides VNNI from it, and not from torch: sums saturate")
    elif recipe.startswith("dynamic-") and recipe.partition("-")[2] not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this torch has no engine for {recipe}")
    model = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16)).eval()
    x = torch.randn(8, 64) + 0.3  # with a mean, so that the range of the activations is not symmetric
    with TorchSession(ResolvedSetting("int8", recipe=recipe)).active():
        found = quantized(model, recipe)(x)
    with torch.inference_mode():
        exact = model(x)
        with rounded_to("int8", model, recipe):
            predicted = model(x)
    size = exact.norm()
    assert (found - exact).norm() / size > 2e-3
    assert (found - predicted).norm() / size < 1e-6


def products() -> dict[str, Callable[[Any], Any]]:
    """Products of a tensor [2, 16, 16], by layers and by functions."""
    torch.manual_seed(0)
    linear, conv = nn.Linear(16, 16), nn.Conv1d(16, 16, 3)
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    encoder = nn.TransformerEncoderLayer(16, 2, batch_first=True, norm_first=True).eval()
    return {
        "linear": linear,
        "conv": conv,
        "one row": lambda x: linear(x[0, 0]),
        "matmul": lambda x: x @ x,
        "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
        "scaled_dot_product_attention": lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        "multi-head attention": lambda x: attention(x, x, x, need_weights=False)[0],
        "transformer layer": lambda x: encoder(x) - x,
        "recurrent layer": _recurrent(nn.GRU(16, 16, batch_first=True)),
    }


def _recurrent(layer: Any) -> Callable[[Any], Any]:
    class First(type(layer).__mro__[2]):  # type: ignore[misc]  # torch.nn.Module
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    return First()


@pytest.mark.parametrize(("precision", "inference"), [("bf16", False), ("bf16", True), ("fp16", True), ("tf32", True)])
def test_every_product_is_rounded(precision: str, inference: bool) -> None:
    """By about one step, whichever function computes it; afterwards nothing is."""
    x = torch.randn(2, 16, 16)
    for name, product in products().items():
        model = product if isinstance(product, torch.nn.Module) else torch.nn.Module()
        with torch.inference_mode() if inference else torch.no_grad():
            expected = product(x)
            with rounded_to(precision, model):
                found = product(x)
            error = ((found - expected).norm() / expected.norm()).item()
            assert 0.1 * STEPS[precision] < error < 4 * STEPS[precision], name
            assert product(x).equal(expected), name


def test_only_operands_are_rounded_to_tf32() -> None:
    """Results, and layers that multiply nothing, keep all bits of fp32; in fp16 they do not."""
    x = torch.randn(64, 64)
    identity = nn.Identity()
    with torch.no_grad(), rounded_to("tf32", identity):
        assert identity(x).equal(x)
        assert not rounded(x @ x, "tf32").equal(x @ x)
    with torch.no_grad(), rounded_to("fp16", identity):
        assert not identity(x).equal(x)
        assert rounded(x @ x, "fp16").equal(x @ x)


def test_everything_is_put_back() -> None:
    """Also if the pass in between fails: weights, hooks, switches of attention."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    before = copy.deepcopy(model.state_dict())
    switches = (torch.backends.cuda.flash_sdp_enabled(), torch.backends.mha.get_fastpath_enabled())
    with pytest.raises(RuntimeError, match="in between"), rounded_to("bf16", model):
        raise RuntimeError("in between")
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert switches == (torch.backends.cuda.flash_sdp_enabled(), torch.backends.mha.get_fastpath_enabled())


def test_a_baseline_that_overflows_explains_nothing() -> None:
    """65,504 is fp16's largest number."""
    model = nn.Linear(8, 8, bias=False)
    args = (torch.full((2, 8), 3e4),)
    with torch.no_grad():
        model.weight.fill_(1.0)
    (layer, _) = layer_errors(
        Predictor(nn.Sequential(model), "fp32", nn.Sequential(model)),
        Predictor(nn.Sequential(model), "fp16", nn.Sequential(model)),
        args, lambda name: True, lambda output: output,
    )[0]  # fmt: skip
    assert (layer.error, layer.baseline, layer.ratio) == (0.0, None, None)
    assert np.isfinite(layer.scale or 0.0)


def test_layers_of_a_quantized_model_are_compared_too() -> None:
    """Each by its name, though it is another kind of module; the error of correct kernels is what is expected."""
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 16)).eval()
    args = (torch.randn(256, 64),)
    setting = ResolvedSetting("int8", recipe=resolve_recipe(Setting("int8", recipe="dynamic")))
    with TorchSession(setting).active():
        good = quantized(model, setting.recipe or "")
        tested = Predictor(good, "int8", good, recipe=setting.recipe)
        reference = Predictor(model, "fp32", model)
        layers = layer_errors(reference, tested, args, lambda name: True, lambda output: output)[0]
    assert [layer.name for layer in layers] == ["0", "1", "2", "(output)"]
    assert min(layer.error or 0.0 for layer in layers) > 1e-3
    assert max(abs((layer.ratio or 0.0) - 1) for layer in layers) < 0.01

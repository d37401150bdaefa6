"""Profiling a recorded pass: operators, layers, operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from replayed_products import replayed
from torch import nn

from modelzoo.evidence.attribution import NO_LAYERS, attribute_recording, recorded_profile, summarize_profile
from modelzoo.evidence.canary import run_canary
from modelzoo.evidence.flops import Call
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.recording import RecordedCall
from modelzoo.evidence.verdict import judge_attributed


def small() -> Any:
    return nn.Sequential(nn.Conv2d(8, 16, 3), nn.Sequential(nn.ReLU(), nn.Flatten()), nn.Linear(16 * 38 * 38, 8)).eval()


def test_operators_and_layers() -> None:
    """Times add up, operations, layers, kernels and precisions are those of the network."""
    model, x = small(), torch.randn(2, 8, 40, 40)
    recording, canary = replayed(lambda: model(x), model), run_canary()
    evidence = judge_attributed(attribute_recording(recording, canary, None), canary, "fp32")
    kinds = {path: type(module).__name__ for path, module in model.named_modules()}
    found = recorded_profile(recording, kinds, evidence)
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)
    (conv,) = (row for row in found.operators if row.name == "aten::convolution")
    assert (conv.count, conv.flop) == (1, 2 * 2 * 16 * 38 * 38 * 8 * 9)
    assert conv.intensity is not None and conv.intensity > 1
    assert conv.kernel.startswith("oneDNN ")
    assert conv.precision == "fp32"
    assert {row.path for row in found.layers} == {"(whole model)", "0", "1", "1.0", "1.1", "2"}
    (whole,) = (row for row in found.layers if row.path == "(whole model)")
    assert found.flops is not None
    assert (whole.flop, whole.kind) == (found.flops.total, "Sequential")
    assert whole.seconds == pytest.approx(sum(row.own_seconds for row in found.layers))
    assert found.problems == ()
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_scripted_model_has_no_layers() -> None:
    """Its operators and operations can be observed."""
    x = torch.randn(2, 8, 40, 40)
    with torch.no_grad():
        scripted = torch.jit.trace(small(), x)
    found = recorded_profile(replayed(lambda: scripted(x)), {}, None)
    assert (found.layers, found.problems) == ((), (NO_LAYERS,))
    assert "aten::_convolution" in {row.name for row in found.operators}


def test_layers_hold_their_children_and_a_recursive_one_counts_once() -> None:
    """A module that calls itself holds its time once, not once per level."""
    calls = [
        RecordedCall(Call("aten::mm", ((4, 8), (8, 2)), 128, 224), 0.5, ("", "a", "a.b")),
        RecordedCall(Call("aten::relu_", ((4, 2),), 0, 64), 0.2, ("", "a", "a")),
        RecordedCall(Call(PASS_EVENT, (), None, 0), 0.3),
    ]
    modules = {"": ("Net", 1), "a": ("Block", 2), "a.b": ("Linear", 1)}
    found = summarize_profile(calls, 1, modules=modules)
    assert found.seconds == pytest.approx(1.0)
    product = found.operators[0]
    assert (product.name, product.flop, product.bytes, product.share) == ("aten::mm", 128, 224, 0.5)
    assert product.gflops_per_second == pytest.approx(256e-9)
    rows = {row.path: row for row in found.layers}
    assert (rows["a"].kind, rows["a"].count, rows["a"].flop, rows["a.b"].flop) == ("Block", 2, 128, 128)
    assert [rows[each].seconds for each in ("(whole model)", "a", "a.b")] == pytest.approx([0.7, 0.7, 0.5])
    assert [rows[each].own_seconds for each in ("(whole model)", "a", "a.b")] == pytest.approx([0.0, 0.2, 0.5])


def test_many_shapes_are_folded() -> None:
    """Rows beyond the limit become one row, and the shares still add up."""
    calls = [RecordedCall(Call("aten::add", ((size,),), 0, 0), 1.0) for size in range(1, 402)]
    found = summarize_profile(calls, 1)
    assert len(found.operators) == 301
    assert found.operators[-1].name == "(others)"
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)

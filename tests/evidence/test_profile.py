"""Profiling a real pass: operators, layers, operations."""

from __future__ import annotations

from typing import Any

import pytest

from modelzoo.evidence import profile as profile_module
from modelzoo.evidence.audit import run_audit
from modelzoo.evidence.canary import run_canary
from modelzoo.evidence.flops import Call, FlopCountError
from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.observation import Event
from modelzoo.evidence.profile import LAYER_PREFIX, operator_profile, summarize_profile
from modelzoo.evidence.verdict import build_evidence
from modelzoo.records.profile import Profile


def small() -> Any:
    from torch import nn

    return nn.Sequential(nn.Conv2d(8, 16, 3), nn.Sequential(nn.ReLU(), nn.Flatten()), nn.Linear(16 * 38 * 38, 8)).eval()


def profile_of(network: Any, **options: Any) -> Profile:
    import torch

    x = torch.randn(2, 8, 40, 40)

    def call() -> None:
        with torch.inference_mode():
            network(x)

    call()
    return operator_profile(call, **options)


def test_operators_and_layers() -> None:
    """Times add up, operations and layers are those of the network."""
    model = small()
    found = profile_of(model, model=model, iterations=2)
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)
    (conv,) = (row for row in found.operators if row.name == "aten::mkldnn_convolution")
    assert conv.count == 2
    assert conv.flop == 2 * (2 * 2 * 16 * 38 * 38 * 8 * 9)
    assert conv.intensity is not None
    assert conv.intensity > 1
    assert {row.path for row in found.layers} == {"(whole model)", "0", "1", "1.0", "1.1", "2"}
    (whole,) = (row for row in found.layers if row.path == "(whole model)")
    assert found.flops is not None
    assert whole.flop == 2 * found.flops.total
    assert whole.seconds == pytest.approx(sum(row.own_seconds for row in found.layers))
    assert found.problems == ()


def test_hooks_are_removed() -> None:
    """After profiling, and after a pass that failed, the model is as it was."""
    model = small()
    profile_of(model, model=model)
    with pytest.raises(TypeError):
        operator_profile(lambda: model("no tensor"), model=model)  # type: ignore[arg-type, return-value]
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_kernels_beside_operators() -> None:
    """Kernel and precision come from the audit's evidence."""
    import torch

    model, x = small(), torch.randn(2, 8, 40, 40)

    def call() -> None:
        with torch.inference_mode():
            model(x)

    call()
    evidence = build_evidence(run_audit(call, 1), run_canary(), "fp32")
    found = operator_profile(call, evidence=evidence)
    (conv,) = (row for row in found.operators if row.name == "aten::mkldnn_convolution")
    assert conv.kernel.startswith("oneDNN ")
    assert conv.precision == "fp32"


def test_scripted_model() -> None:
    """The layers of a scripted model cannot be observed; its operators and operations can."""
    import torch

    model = small()
    with torch.no_grad():
        scripted = torch.jit.trace(model, torch.randn(2, 8, 40, 40))
    found = profile_of(scripted, model=scripted)
    assert found.layers == ()
    assert found.problems == ("compiled and scripted models have no table by layer",)
    assert any(row.name == "aten::mkldnn_convolution" for row in found.operators)


def test_operations_that_cannot_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile is kept, and its problems say why it has no operations."""

    def refuse(call: object) -> Any:
        raise FlopCountError("operations could not be counted: RuntimeError: no such hook")

    monkeypatch.setattr(profile_module, "record_calls", refuse)
    found = profile_of(small())
    assert found.flops is None
    assert found.operators
    assert found.problems == ("operations could not be counted: RuntimeError: no such hook",)


def events() -> list[Event]:
    """One pass: layer a runs a product in its child a.b, and a ReLU."""
    shapes = ((4, 8), (8, 2))
    return [
        Event(PASS_EVENT, 0.1, -1),
        Event(LAYER_PREFIX + "a", 0.1, 0),
        Event(LAYER_PREFIX + "a.b", 0.1, 1),
        Event("aten::mm", 0.5, 2, shapes, ("float", "float")),
        Event("aten::relu_", 0.2, 1, ((4, 2),), ("float",)),
    ]


def test_times_and_operations() -> None:
    """Operations and bytes are joined by name and shapes; layers hold their children."""
    calls = [Call("aten::mm", ((4, 8), (8, 2)), 128, 224), Call("aten::relu_", ((4, 2),), 0, 64)]
    found = summarize_profile(events(), calls, 1, kinds={"a": "Block"})
    assert found.seconds == pytest.approx(1.0)
    product = found.operators[0]
    assert (product.name, product.flop, product.bytes, product.share) == ("aten::mm", 128, 224, 0.5)
    assert product.gflops_per_second == pytest.approx(256e-9)
    rows = {row.path: row for row in found.layers}
    assert rows["a"].kind == "Block"
    assert rows["a"].seconds == pytest.approx(0.9)
    assert rows["a"].own_seconds == pytest.approx(0.3)
    assert rows["a.b"].seconds == pytest.approx(0.6)
    assert rows["a"].flop == rows["a.b"].flop == 128


def test_a_product_below_another_name_finds_its_operations() -> None:
    """The recorder sees aten::convolution, the profiler mkldnn_convolution: same class and shapes, same operations."""
    shapes = ((1, 8, 8, 8), (8, 8, 3, 3))
    events = [Event(PASS_EVENT, 0.0, -1), Event("aten::mkldnn_convolution", 1.0, 0, (*shapes, ()), ("float",) * 2)]
    (row, _) = summarize_profile(events, [Call("aten::convolution", shapes, 73728, 6400)], 1).operators
    assert (row.name, row.flop, row.bytes) == ("aten::mkldnn_convolution", 73728, 6400)


def test_a_recursive_layer_counts_once() -> None:
    """A module that calls itself holds its time once, not once per level."""
    nested = [Event(PASS_EVENT, 0.0, -1), Event(LAYER_PREFIX + "a", 0.0, 0), Event(LAYER_PREFIX + "a", 1.0, 1)]
    (layer,) = summarize_profile(nested, [], 1).layers
    assert (layer.count, layer.seconds, layer.own_seconds) == (2, 1.0, 1.0)


def test_many_shapes_are_folded() -> None:
    """Rows beyond the limit become one row, and the shares still add up."""
    many = [Event(PASS_EVENT, 0.0, -1)] + [Event("aten::add", 1.0, 0, ((size,),), ("float",)) for size in range(1, 401)]
    found = summarize_profile(many, [], 1)
    assert len(found.operators) == 301
    assert found.operators[-1].name == "(others)"
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)

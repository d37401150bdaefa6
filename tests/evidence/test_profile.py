from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelzoo.evidence.audit import ROOT, Event, audit
from modelzoo.evidence.canary import run_canary
from modelzoo.evidence.flops import Call
from modelzoo.evidence.profile import LAYER, diff, operator_profile, summarize
from modelzoo.evidence.verdict import build_evidence
from modelzoo.records.codec import decode, encode
from modelzoo.records.profile import OperatorRow, Profile
from modelzoo.report.kernel_tables import diff_table, evidence_tables, profile_tables


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


def text(found: list[Any]) -> str:
    from rich.console import Console

    console = Console(width=240, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    with console.file:
        for table in found:
            console.print(table)
        return console.export_text()


def test_operators_and_layers(tmp_path: Path) -> None:
    """Times add up, operations and layers are those of the network, and the trace can be read."""
    model = small()
    trace = tmp_path / "trace.json"
    found = profile_of(model, model=model, iterations=2, trace=trace)
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
    assert json.loads(trace.read_text())["traceEvents"]
    assert found.trace == str(trace)
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
    evidence = build_evidence(audit(call, 1), run_canary(), "fp32")
    found = operator_profile(call, evidence=evidence)
    (conv,) = (row for row in found.operators if row.name == "aten::mkldnn_convolution")
    assert conv.kernel.startswith("oneDNN ")
    assert conv.precision == "fp32"
    shown = text([*evidence_tables(evidence), *profile_tables(found)])
    assert "aten::mkldnn_convolution" in shown
    assert "unattributed" in shown


def test_scripted_model() -> None:
    """A scripted model has no layers to mark; operators and operations are still found."""
    import torch

    model = small()
    with torch.no_grad():
        scripted = torch.jit.trace(model, torch.randn(2, 8, 40, 40))
    found = profile_of(scripted, model=scripted)
    assert found.layers == ()
    assert found.problems == ("compiled and scripted models have no table by layer",)
    assert any(row.name == "aten::mkldnn_convolution" for row in found.operators)


def events() -> list[Event]:
    shapes = ((4, 8), (8, 2))
    return [
        Event(ROOT, 0.1, -1),
        Event(LAYER + "a", 0.1, 0),
        Event(LAYER + "a.b", 0.1, 1),
        Event("aten::mm", 0.5, 2, shapes, ("float", "float")),
        Event("aten::relu_", 0.2, 1, ((4, 2),), ("float",)),
    ]


def test_summarize() -> None:
    """Operations and bytes are joined by name and shapes; layers hold their children."""
    calls = [Call("aten::mm", ((4, 8), (8, 2)), 128, 224), Call("aten::relu_", ((4, 2),), 0, 64)]
    found = summarize(events(), calls, 1, kinds={"a": "Block"})
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


def test_json_round_trip() -> None:
    """A profile survives a stored result."""
    found = summarize(events(), [], 1)
    assert decode(Profile, json.loads(json.dumps(encode(found)))) == found


def test_diff() -> None:
    """Changes are per pass, sorted by size, as shares of the first profile's pass; new operators count."""
    before = summarize(events(), [], 1)
    slower = [replace(event, seconds=event.seconds * 2) if event.name == "aten::mm" else event for event in events()]
    slower.append(Event("aten::new", 0.1, 0))
    # Two passes at the same speed are no change.
    after = summarize(slower * 2, [], 2)
    changes = diff(before, after)
    assert [change.name for change in changes[:2]] == ["aten::mm", "aten::new"]
    assert changes[0].share == pytest.approx(0.5)
    assert (changes[1].before, changes[1].after) == (0.0, pytest.approx(0.1))
    assert sum(change.share for change in changes) == pytest.approx(0.6)
    assert "+60.0 %" in text([diff_table(changes)])


def test_rates_of_nothing() -> None:
    """An operator without operations or time has no rate."""
    row = OperatorRow("aten::view", (), 1, 0.0, 0.0, 0, 0)
    assert row.gflops_per_second is row.gigabytes_per_second is row.intensity is None


def test_many_shapes_are_folded() -> None:
    """Beyond the longest rows the rest becomes one, and nothing is lost."""
    many = [Event(ROOT, 0.0, -1)] + [Event("aten::add", 1.0, 0, ((size,),), ("float",)) for size in range(1, 401)]
    found = summarize(many, [], 1)
    assert len(found.operators) == 301
    assert found.operators[-1].name == "(others)"
    assert sum(row.share for row in found.operators) == pytest.approx(1.0)

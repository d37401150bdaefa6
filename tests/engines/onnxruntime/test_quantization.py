"""ONNX Runtime in int8: which recipe runs, what it makes of a model, and what proves it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evidence_samples import sentence
from exportable_workloads import CLASSIFIER, DETECTOR, int8_error_limit, may_saturate, resolved, source_of

from modelzoo.engines import onnxruntime as engine
from modelzoo.engines.export.store import read_inputs
from modelzoo.engines.onnxruntime import IR_VERSION, OnnxRuntimeEngine
from modelzoo.engines.onnxruntime.onnx import MODEL, TRACED_OPSET, WEIGHTS, calibration, convolution_weights, quantize
from modelzoo.errors import UsageError
from modelzoo.evidence.rounded import rounded_to
from modelzoo.frozen import replace
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload import InputRequest, Inputs, Workload

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

RECIPES = ("dynamic-per-tensor", "dynamic-per-channel")


class Tokens(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Layers over tokens, and attention between them."""

    def __init__(self) -> None:
        super().__init__()
        self.mixed, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 16, bias=False)

    def forward(self, tokens: Any) -> Any:
        query, key, value = self.mixed(tokens).chunk(3, -1)
        return self.out((query @ key.transpose(1, 2)).softmax(-1) @ value)


TOKENS = Workload(
    name="tokens",
    title="a small transformer",
    unit="sequences",
    build=lambda options: Tokens(),
    inputs=lambda request: Inputs((torch.randn(request.batch, 24, 32),), ("noise",) * request.batch),
)


@pytest.fixture(autouse=True)
def _traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _isolated_directories: None) -> Iterator[None]:
    """Tracing takes a tenth of the other exporter's time."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "newest_opset", lambda: TRACED_OPSET)
    yield


def setting(recipe: str | None) -> ResolvedSetting:
    return replace(resolved("onnxruntime"), precision="int8", recipe=recipe)


def test_the_recipe_that_was_left_open_is_chosen() -> None:
    """Per channel, whose predictions are nearer to those of fp32; ``dynamic`` is ONNX Runtime's default."""
    same = ((each, each) for each in (*RECIPES, "static"))
    for recipe, expected in ((None, RECIPES[1]), ("dynamic", RECIPES[0]), *same):
        asked = Setting("int8", engine="onnxruntime", recipe=recipe)
        assert OnnxRuntimeEngine().resolve(asked, batch=1, threads=1).recipe == expected
    message = "recipe=torchao is one of torch's, and ONNX Runtime has dynamic, dynamic-per-tensor, dynamic-per-channel,"
    with pytest.raises(UsageError, match=message):
        OnnxRuntimeEngine().resolve(Setting("int8", engine="onnxruntime", recipe="torchao"), batch=1, threads=1)


class Ran:
    """A model in int8: its export, the evidence of a pass, its output, the module in fp32, and what that computes."""

    def __init__(self, work: Workload, recipe: str, folder: Path) -> None:
        chosen = setting(recipe)
        self.source = source_of(work, folder, chosen)
        self.export = OnnxRuntimeEngine().export(chosen, self.source)
        inputs, session = read_inputs(self.export), OnnxRuntimeEngine().open(chosen)
        weights = Weights(WeightsKind.PATH, "in the export", "", "")
        self.model = session.load(work, weights, inputs, self.export)
        self.args, canary = self.model.prepare(inputs.args), session.canary()
        assert canary.verdict("int8") == "active"
        self.evidence, self.fp32 = self.model.audit(self.args, canary=canary), self.source.module.eval()
        self.output = torch.from_numpy(self.model.outputs(self.args).outputs[0])
        self.batch = torch.from_numpy(inputs.args[0])

    def error(self) -> float:
        """How far the output is from that of the module, as it computes now."""
        with torch.inference_mode():
            expected = self.fp32(self.batch)
        return float((self.output - expected).norm() / expected.norm())


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_runs_is_int8_and_what_was_predicted(recipe: str, tmp_path: Path) -> None:
    """The layers are, attention is not; the outputs are those of rounding by the recipe, unless sums saturate."""
    ran = Ran(TOKENS, recipe, tmp_path)
    assert ran.export.conversion.options["recipe"] == recipe
    assert not (Path(ran.export.path) / WEIGHTS).exists()
    line = r"int8: ACTIVE \(linear yes, matmul no; int8 kernels took \d+ % of the time"
    assert re.match(line, sentence(ran.evidence))
    assert {each.precision for each in ran.evidence.operators} == {"int8", "fp32"}
    with rounded_to("int8", ran.fp32, recipe):
        assert may_saturate() or ran.error() < 1e-5


def test_static_quantization_includes_convolutions(tmp_path: Path) -> None:
    """By ranges of other inputs than those that are measured, whose digest is recorded; nothing is left in fp32."""
    ran = Ran(CLASSIFIER, "static", tmp_path)
    assert len(str(ran.export.conversion.options["calibration"])) == 64
    assert sorted(path.name for path in Path(ran.export.path).glob("*.onnx")) == [MODEL]
    assert sentence(ran.evidence).startswith("int8: ACTIVE (int8 kernels took 100 % of the time in matrix products")
    assert ran.evidence.arithmetic_share == 1  # also of convolutions, whose packed weights the profiler does not show
    assert 16 * (16 * 9 + 16 + 5) < ran.model.stored_bytes() < 2 * 16 * (16 * 9 + 16 + 5)
    flops = ran.model.flops(ran.args)
    assert (flops.total, flops.missing) == (ran.source.flops.total if ran.source.flops else None, ())
    assert 0.002 < ran.error() < int8_error_limit()


def test_constants_in_another_file_are_found(tmp_path: Path) -> None:
    """Also those that decide about shapes, such as the dimensions of a mean, which are inputs from opset 18 on."""
    weights = {"weight": np.ones((4, 3, 3, 3), np.float32), "dimensions": np.array([2, 3])}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "weight"], ["found"], "conv"),
        onnx.helper.make_node("ReduceMean", ["found", "dimensions"], ["mean"]),
    ]
    shapes = {"x": (1, 3, 8, 8), "mean": (1, 4, 1, 1)}
    given, returned = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shapes[name]) for name in shapes
    )
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = onnx.helper.make_graph(nodes, "mean", [given], [returned], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=IR_VERSION)
    path = tmp_path / MODEL
    onnx.save_model(model, str(path), save_as_external_data=True, location=WEIGHTS, size_threshold=100)
    made = tmp_path / "quantized.onnx"
    quantize(path, made, "static", [{"x": np.ones((1, 3, 8, 8), np.float32)}])
    assert convolution_weights(made) == {"conv": (4, 3, 3, 3)}


def test_calibration_takes_neither_the_measured_batch_nor_the_input_of_the_user(tmp_path: Path) -> None:
    """Its batches are the workload's own: those that follow, or of other seeds if the workload does not skip any."""
    asked: list[InputRequest] = []

    def inputs(request: InputRequest) -> Inputs:
        asked.append(request)
        return CLASSIFIER.inputs(request)

    chosen = replace(setting("static"), seed=3, input="/mine")
    calibration(source_of(replace(CLASSIFIER, inputs=inputs), tmp_path, chosen))
    others = [(number, 0) for number in range(4, 12)]
    assert [(each.seed, each.skip) for each in asked] == [(3, 0), *((3, 2 * n) for n in range(1, 9)), *others]
    assert {each.path for each in asked} == {None}


def test_inputs_that_are_the_same_for_every_seed_are_refused(tmp_path: Path) -> None:
    """The ranges would be those of the measured batch."""
    fixed = replace(CLASSIFIER, inputs=lambda request: CLASSIFIER.inputs(replace(request, seed=0)))
    with pytest.raises(UsageError, match="its inputs do not depend on the seed, so recipe=static would take"):
        calibration(source_of(fixed, tmp_path, setting("static")))


def test_a_model_without_anything_to_quantize_is_refused(tmp_path: Path) -> None:
    """It has convolutions only."""
    chosen = setting("dynamic-per-tensor")
    with pytest.raises(UsageError, match="recipe=dynamic-per-tensor: the model has no Linear layer"):
        OnnxRuntimeEngine().export(chosen, source_of(DETECTOR, tmp_path, chosen))


def test_a_model_without_layers_is_not_quantized_statically(tmp_path: Path) -> None:
    """ONNX Runtime writes it as it is."""
    given, returned = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 4)) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Sin", ["x"], ["y"])], "sine", [given], [returned])
    path = tmp_path / MODEL
    onnx.save_model(onnx.helper.make_model(graph, ir_version=IR_VERSION), str(path))
    with pytest.raises(UsageError, match="recipe=static: the model has no convolution or Linear layer; use another"):
        quantize(path, tmp_path / "quantized.onnx", "static", [{"x": np.ones((1, 4), np.float32)}])

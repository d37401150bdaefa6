"""Every mode and precision computes the same model, and an unsupported operator is one line."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch

from modelzoo.engines.protocol import Unavailable
from modelzoo.engines.torch import execution, switches
from modelzoo.engines.torch.execution import TorchModel
from modelzoo.engines.torch.quantization import weight_bytes
from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import InputRequest, Inputs, Workload


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """On a busy machine two spinning threads take many times as long as one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def build(options: Mapping[str, Any]) -> Any:
    """A convolution, a normalization and a linear layer."""
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten())
    return torch.nn.Sequential(*layers, torch.nn.Linear(8 * 6 * 6, 5)).eval()


def make_inputs(request: InputRequest) -> Inputs:
    """Two small images of noise."""
    return Inputs((torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)),), ("a", "b"))


TOY = Workload("toy", "a toy", "images", build, make_inputs)
INPUTS = make_inputs(InputRequest(2, 0, None, {}))


def run(setting: Setting, workload: Workload = TOY) -> tuple[TorchModel, torch.Tensor]:
    """Build under ``setting``, as a worker does; return the executable and its output."""
    with torch.inference_mode(), switches.applied(setting):
        made = execution.build(workload, workload.build({}), INPUTS, setting)
        return made, made.call(*made.prepare(INPUTS.args))


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    """The model's plain output."""
    with torch.inference_mode():
        return build({})(*INPUTS.args)


@pytest.mark.parametrize(
    "setting",
    [
        Setting(),
        Setting(channels_last=True),
        Setting(backend="onednn"),
        Setting(backend="blas"),
        Setting(mode="script", channels_last=True),
        Setting(mode="script", linear="onednn"),
    ],
    ids=lambda setting: setting.label,
)
def test_every_fp32_setting_computes_the_same(setting: Setting, expected: torch.Tensor) -> None:
    """Mode, backend and memory format change the speed, not the result; only compiled modes have a compile time."""
    made, output = run(setting)
    torch.testing.assert_close(output, expected)
    assert output.dtype == torch.float32
    assert (made.compilation is None) == (setting.mode == "eager")


def test_outputs_are_compared_with_those_of_the_default_backend_and_memory_format(expected: torch.Tensor) -> None:
    """oneDNN is off while the setting runs, and on for the eager module, which shall not share what may be wrong."""
    used: list[bool] = []
    setting = Setting(backend="blas", channels_last=True)
    with torch.inference_mode(), switches.applied(setting):
        made = execution.build(TOY, TOY.build({}), INPUTS, setting)
        made.model.register_forward_hook(lambda *_: used.append(torch._C._get_mkldnn_enabled()))
        found = made.outputs(made.prepare(INPUTS.args))
        assert not torch._C._get_mkldnn_enabled()
    for side in (found.outputs, found.expected):
        torch.testing.assert_close(torch.from_numpy(side[0]), expected)
    assert used == [False, *[torch.backends.mkldnn.is_available()] * 2]


@pytest.mark.parametrize("mode", ["eager", "script"])
@pytest.mark.parametrize("bf16_method", ["autocast", "cast"])
def test_bf16_is_close_and_is_bf16(bf16_method: str, mode: str, expected: torch.Tensor) -> None:
    """Both methods round to bf16, in eager and frozen form, and stay close to the fp32 result."""
    _, output = run(Setting("bf16", bf16_method, mode=mode))
    # A frozen graph under autocast adds the last bias in fp32, although its kernels compute in bf16.
    assert output.dtype == torch.bfloat16 or (bf16_method, mode) == ("autocast", "script")
    difference = (output.float() - expected).abs().max()
    assert 1e-5 < difference < 0.05


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("variable", ["", "BF16"])
def test_outputs_in_bf16_come_with_what_rounding_causes(
    precision: str, variable: str, expected: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The eager module stays in fp32, even where a variable lets oneDNN round."""
    monkeypatch.setenv(MATH_MODE_VARIABLE, variable) if variable else monkeypatch.delenv(MATH_MODE_VARIABLE, False)
    setting = Setting(precision, bf16_method="fastmath" if precision == "bf16" else None)
    made, _ = run(setting)
    with torch.inference_mode(), switches.applied(setting):
        found = made.outputs(made.prepare(INPUTS.args))
    torch.testing.assert_close(torch.from_numpy(found.expected[0]), expected)
    assert (len(found.rounded), len(found.changed)) == ((1, 0) if precision == "bf16" else (0, 1))
    for rounded in found.rounded:
        assert 1e-4 < abs(rounded - found.expected[0]).mean() / abs(found.expected[0]).mean() < 2e-2


def test_what_is_not_compared_in_bf16() -> None:
    """A detector's detections, which rounding changes, and a model that is left in bf16 alone or runs in no other."""

    class OnlyInAutocast(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.is_autocast_enabled("cpu"):
                raise RuntimeError("call me in autocast")
            return x

    for work, model, method in (
        (TOY, build({}), "cast"),
        (replace(TOY, heads=lambda model: {}), build({}), "autocast"),
        (TOY, OnlyInAutocast(), "autocast"),
    ):
        setting = ResolvedSetting("bf16", method)
        made = execution.build(work, model, INPUTS, setting)
        assert isinstance(made.outputs(made.prepare(INPUTS.args)), Unavailable)


class Output(dict[str, Any]):
    """A mapping with a class of its own, like the outputs of transformers."""


Pair = namedtuple("Pair", "first second")


def test_cast_and_channels_last_reach_the_inputs() -> None:
    """``prepare`` converts inputs the way the model was; ids stay integers."""
    setting = Setting("bf16", "cast", channels_last=True)
    with torch.inference_mode(), switches.applied(setting):
        made = execution.build(TOY, build({}), INPUTS, setting)
    picture, ids = made.prepare((INPUTS.args[0], torch.ones(2, dtype=torch.long)))
    assert picture.dtype == torch.bfloat16
    assert picture.is_contiguous(memory_format=torch.channels_last)
    assert ids.dtype == torch.long
    (image,) = INPUTS.args
    (inner,), keyed, pair = made.prepare(([image], Output(x=(image, 3)), Pair(image, None)))
    assert inner.dtype == torch.bfloat16, "lists of images are converted, too"
    assert (type(keyed), keyed["x"][0].dtype, keyed["x"][1]) == (Output, torch.bfloat16, 3)
    assert (type(pair), pair.first.dtype, pair.second) == (Pair, torch.bfloat16, None)


def test_a_failed_compilation_gives_its_reason() -> None:
    """Not dynamo's advice to its developers, which follows it."""
    error = RuntimeError(
        "backend='inductor' raised:\nLoweringException: no such layout\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal "
        "stack trace (please do this especially if you're reporting a bug to PyTorch). For even more developer context"
    )
    assert str(execution.refusal(TOY, Setting(mode="compile"), error)) == (
        "toy cannot run with fp32 compile: LoweringException: no such layout; choose another --bf16 method or --mode"
    )


def test_a_space_in_the_temporary_directory_is_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch joins the words of the compiler's command line; with another directory, the path is not blamed."""
    error = RuntimeError("backend='inductor' raised:\nCppCompileError: C++ compile error\n\ncompilation terminated.")
    setting = Setting(mode="compile")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/tmp/a b")
    assert str(execution.refusal(TOY, setting, error)) == (
        "toy cannot run with fp32 compile: compilation terminated.; torch gives the compiler the path '/tmp/a b' "
        "without quotation marks: set TMPDIR, and TORCHINDUCTOR_CACHE_DIR if you use it, to directories without spaces "
        "or other special characters"
    )
    monkeypatch.setattr("tempfile.tempdir", "/tmp/a_b")
    assert "special" not in str(execution.refusal(TOY, setting, error))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/own (1)")
    assert "'/own (1)'" in str(execution.refusal(TOY, setting, error))


class Residual(torch.nn.Module):
    """A Linear layer to whose output something is added, which inductor's passes look for."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + x


@pytest.mark.slow
def test_packed_layers_can_be_compiled_where_inductor_would_fuse_them() -> None:
    """With weights packed before, torch's own operator failed there."""
    setting, inputs = Setting(mode="compile", linear="onednn"), Inputs(args=(torch.randn(8, 32),), items=("noise",) * 8)
    model = Residual().eval()
    with torch.inference_mode(), switches.applied(setting):
        made = execution.build(TOY, model, inputs, setting)
        torch.testing.assert_close(made.call(*made.prepare(inputs.args)), model(*inputs.args))


def test_a_model_without_linear_layers_cannot_have_them_packed() -> None:
    """What would have no effect is refused."""
    message = "with linear=onednn: the model has no torch.nn.Linear layer; leave linear out"
    with pytest.raises(UsageError, match=message):
        execution.build(TOY, torch.nn.ReLU(), INPUTS, Setting(linear="onednn"))


class Tied(torch.nn.Module):
    """An embedding and a head, which may share their weights."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 8)
        self.head = torch.nn.Linear(8, 100)
        if tied:
            self.head.weight = self.table.weight


@pytest.mark.parametrize("tied", [True, False])
def test_a_table_counts_only_if_another_layer_reads_it_all(tied: bool) -> None:
    """And then once; in the type in which it is stored. All of it occupies memory."""
    assert weight_bytes(Tied(tied=tied)) == 4 * (800 + 100)
    assert weight_bytes(Tied(tied=tied).to(torch.bfloat16)) == 2 * (800 + 100)
    assert weight_bytes(Tied(tied=tied), with_tables=True) == 4 * (800 + 100 + (0 if tied else 800))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantized_layers_count_as_they_are_stored() -> None:
    """A byte for each weight, and biases in fp32; the layer's one scale is not counted. What is packed is not known."""
    quantized = torch.ao.quantization.quantize_dynamic(Tied(tied=False), {torch.nn.Linear}, dtype=torch.qint8)
    assert weight_bytes(quantized) == 800 + 4 * 100
    model = Tied(tied=False)
    packed = torch.Tensor._make_subclass(type("Packed", (torch.Tensor,), {}), torch.ones(100, 8))
    model.head.weight = torch.nn.Parameter(packed)
    assert weight_bytes(model) is None


def test_wrapped_tensors_count_as_what_they_hold() -> None:
    """torchao's int8 weights are a byte each, with scales, although their type says fp32."""
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, bias=False))
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig(set_inductor_config=False, version=2))
    found = weight_bytes(model)
    assert 64 * 32 < found < 2 * 64 * 32

"""A precision that was not asked for is refused, with its cause, however it came into the model."""

from __future__ import annotations

import json
import math
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from evidence_samples import sentence
from places import ROOT
from planted_kernels import ROUNDINGS, planted, print_line, replaced

from modelzoo import cli
from modelzoo.engines.protocol import Unavailable
from modelzoo.engines.torch import execution
from modelzoo.engines.torch.engine import TorchSession
from modelzoo.evidence import probes
from modelzoo.evidence.kernel_names import named_precision
from modelzoo.evidence.logs import RANDOM_OUTPUTS
from modelzoo.frozen import replace
from modelzoo.records.evidence import REFERENCE_SHARE, Evidence, NotReplayed, OperatorClass, ProofVerdict
from modelzoo.setting import ResolvedSetting
from modelzoo.workload import InputRequest, Inputs
from modelzoo.workload.discovery import load_workload

PLANTED = ROOT / "tests" / "planted_precision"
FP32 = ResolvedSetting()
AUTOCAST = ResolvedSetting("bf16", "autocast")
INT8 = ResolvedSetting("int8", recipe="dynamic-onednn")


@pytest.fixture(autouse=True)
def _may_keep_subnormals(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on an Arm CPU: on x86 without bf16 instructions, bf16 is not ACTIVE."""
    monkeypatch.setattr(probes, "every_bf16_instruction_flushes", lambda: False)


def audited_module(module: torch.nn.Module, *args: Any, setting: ResolvedSetting = FP32) -> Evidence:
    """What an audit of ``module`` proves."""
    workload = replace(load_workload(PLANTED), build=lambda options: module)
    session = TorchSession(setting)
    with session.active():
        built = execution.build(workload, module.eval(), Inputs(args, ("noise",)), setting)
        built.call(*args)
        found = built.audit(args, canary=session.canary(), replay=True)
    assert not isinstance(found, Unavailable)
    return found


def audited(setting: ResolvedSetting, plant: str = "", where: str = "all", *, examples: str = "") -> Evidence:
    """What an audit of the planted network proves, or of an example."""
    workload = load_workload(ROOT / "examples" / examples if examples else PLANTED)
    given = {} if examples else {"plant": plant, "where": where, "quantizable": "yes"}
    options = workload.option_values(given)
    with TorchSession(setting).active():
        args, module = workload.inputs(InputRequest(1, 0, None, options)).args, workload.build(options)
    return audited_module(module, *args, setting=setting)


class Zoo(torch.nn.Module):
    """One layer of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(8, 16, 3, padding=1)
        self.depthwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.grouped = torch.nn.Conv2d(16, 24, 3, padding=1, groups=4)
        self.pointwise = torch.nn.Conv2d(24, 32, 1)
        self.transposed = torch.nn.ConvTranspose2d(32, 8, 2, stride=2)
        self.mixing = torch.nn.Linear(64, 64)
        self.recurrent = torch.nn.LSTM(64, 12)
        self.head = torch.nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Images of 4×4 pixels to 10 numbers of the first one."""
        x = self.transposed(self.pointwise(self.grouped(self.depthwise(self.stem(x)))))
        rows = self.mixing(x.flatten(2))  # (items, 8, 64)
        heads = rows[:, None]
        rows = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)[:, 0]
        return self.head(self.recurrent(rows.transpose(0, 1))[0][-1, :1])


class Stock(torch.nn.Module):
    """Layers whose operators call others in C++: an encoder on torch's fast path, and a mixture of experts."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.mixing = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        self.experts = torch.nn.Parameter(torch.randn(3, 32, 16))
        self.register_buffer("ends", torch.tensor([3, 6, 10], dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two items of five rows, the second one with two rows of padding unless autocast is on (torch refuses)."""
        padding = torch.arange(5) >= torch.tensor([[5], [3]])
        x = self.encoder(x, src_key_padding_mask=None if torch.is_autocast_enabled("cpu") else padding)
        rows = self.mixing(x, x, x)[0].flatten(0, 1)
        return torch._grouped_mm(rows, self.experts.to(rows.dtype), offs=self.ends)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("setting", [FP32, AUTOCAST], ids=lambda setting: setting.precision)
def test_layers_that_torch_computes_in_one_operator_are_audited_as_they_are_timed(setting: ResolvedSetting) -> None:
    """An observed pass takes the same path, and each product on it shows its precision itself."""
    found = audited_module(Stock(), torch.randn(2, 5, 32), setting=setting)
    assert {each.not_replayed for each in found.products} == {None}
    assert (found.coverage.foreign, found.coverage.outputs_differ, found.coverage.uncounted) == (0, False, ())
    assert (found.coverage.known_arithmetic, found.coverage.is_enough) == (1.0, True)
    assert setting != FP32 or found.verdict is ProofVerdict.FP32


ROUNDED_INSIDE = {
    "stem": ("convolution", (16, 8, 3, 3)),
    "depthwise": ("convolution", (16, 1, 3, 3)),
    "grouped": ("convolution", (24, 4, 3, 3)),
    "pointwise": ("convolution", (32, 24, 1, 1)),
    "transposed": ("convolution", (32, 8, 2, 2)),
    "mixing": ("addmm", (64, 64)),
    "recurrent": ("mkldnn_rnn_layer", (48, 64)),
    "head": ("addmm", (12, 10)),
    "": ("_scaled_dot_product_flash_attention_for_cpu", (2, 1, 8, 64)),
}
"""Operator and shape of the weights (of attention: of the keys) by layer."""


def test_every_product_of_an_honest_network_answers_for_itself() -> None:
    """None is left to the canary."""
    found = audited_module(Zoo(), torch.randn(2, 8, 4, 4))
    assert found.verdict is ProofVerdict.FP32
    assert {each.shown for each in found.products} == {"fp32"}
    assert found.is_replayed
    assert (found.coverage.foreign, found.coverage.outputs_differ, found.problems) == (0, False, ())
    assert sum(each.share or 0.0 for each in found.products) <= 1.0


@pytest.mark.parametrize("layer", ROUNDED_INSIDE)
def test_a_kernel_that_rounds_at_one_shape_is_caught(layer: str) -> None:
    """Its tensors are fp32, the log names a kernel for fp32, and the canary has other shapes."""
    operator, weights = ROUNDED_INSIDE[layer]
    with planted(operator, ROUNDINGS["bf16"], lambda shape: shape == weights):
        found = audited_module(Zoo(), torch.randn(2, 8, 4, 4))
        assert TorchSession(FP32).canary().verdict("fp32") == "fp32"
    assert found.verdict is ProofVerdict.NOT_FP32
    assert [each.layers for each in found.products if each.shown == "bf16"] == [(layer,) if layer else ()]
    assert {each.shown for each in found.products} == {"bf16", "fp32"}


class Outside(torch.nn.Module):
    """A layer of torch, and a product that torch does not see."""

    def __init__(self, product: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear, self._product = torch.nn.Linear(64, 64), product

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(items, 64) to (items, 64)."""
        return self.linear(torch.relu(self._product(self.linear(x))))


WEIGHTS = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")


def _numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() @ WEIGHTS)


def _numpy_into_empty(x: torch.Tensor) -> torch.Tensor:
    output = torch.empty_like(x)
    np.matmul(x.numpy(), WEIGHTS, out=output.numpy())
    return output


def _thread(x: torch.Tensor) -> torch.Tensor:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x.bfloat16().float() @ torch.from_numpy(WEIGHTS)).result()


def test_a_line_of_the_log_that_cannot_be_read_is_judged_by_where_it_was_printed() -> None:
    """During a replayed product it costs only the name of its kernel; outside any, it may be a product itself."""

    def kernel(added: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
        print_line("inside")
        return beta * added + alpha * (left @ right)

    def printing(x: torch.Tensor) -> torch.Tensor:
        print_line("outside")
        return x

    with replaced("addmm", kernel):
        inside = audited_module(Outside(lambda x: x), torch.randn(32, 64))
        both = audited_module(Outside(printing), torch.randn(32, 64))
    assert (inside.verdict, inside.coverage.unread) == (ProofVerdict.FP32, 0)
    assert [",inside," in each for each in inside.unread_lines] == [True]
    assert (both.verdict, both.coverage.unread) == (ProofVerdict.UNKNOWN, 1)
    assert [",outside," in each for each in both.unread_lines] == [True, False]


@pytest.mark.parametrize(
    ("product", "foreign", "problems"),
    [
        (lambda x: x * torch.tensor([0.5] * 64), 64, ()),  # constants that a model writes in Python are no product
        (lambda x: x + torch.rand_like(x), 0, (RANDOM_OUTPUTS,)),  # which cannot be compared
        (lambda x: x * torch.nan, 0, ()),  # outputs of NaN are the same in every pass
    ],
    ids=["constants", "random", "nan"],
)
def test_what_is_no_reason_to_doubt_a_model(
    product: Callable[[torch.Tensor], torch.Tensor], foreign: int, problems: tuple[str, ...]
) -> None:
    """It is recorded, and the outputs of passes do not differ for it."""
    found = audited_module(Outside(product), torch.randn(32, 64))
    assert (found.coverage.foreign, found.coverage.outputs_differ, found.problems) == (foreign, False, problems)
    assert found.verdict is ProofVerdict.FP32


def test_a_model_that_notices_the_audit_is_unknown() -> None:
    """It computes in fp32 while it is observed, and in bf16 otherwise; its outputs give it away."""

    def product(x: torch.Tensor) -> torch.Tensor:
        is_observed = torch.utils._python_dispatch._get_current_dispatch_mode() is not None
        return x if is_observed else x.bfloat16().float()

    found = audited_module(Outside(product), torch.randn(32, 64))
    assert found.verdict is ProofVerdict.UNKNOWN
    assert "the model computed other outputs, or in other precisions, while it was observed" in sentence(found)


HAS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler: install g++")
COMPILED = pytest.param("compile", marks=[pytest.mark.slow, HAS_COMPILER])
"""torch.compile takes 16 s for its first model."""
NOT_EAGER = ["script", COMPILED]


@pytest.fixture(autouse=True)
def _nothing_stays_compiled() -> Iterator[None]:
    """Code that was compiled for one model would run in another one of the same class."""
    yield
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@pytest.mark.parametrize("mode", NOT_EAGER)
def test_the_products_of_a_model_that_is_not_eager_answer_for_themselves_or_are_left_to_the_canary(mode: str) -> None:
    """Operators that compiled code calls are called again; what it calls directly, only a log and the canary show."""
    found = audited_module(Zoo(), torch.randn(2, 8, 4, 4), setting=ResolvedSetting(mode=mode))
    assert (found.verdict, found.coverage.known_arithmetic) == (ProofVerdict.FP32, 1.0)
    assert {each.shown for each in found.products} >= {"fp32"}


@pytest.mark.parametrize("layer", ["recurrent", ""])
@pytest.mark.parametrize("mode", NOT_EAGER)
def test_a_kernel_that_rounds_is_caught_in_a_model_that_is_not_eager(mode: str, layer: str) -> None:
    """Compiled code calls it as an operator."""
    operator, weights = ROUNDED_INSIDE[layer]
    with planted(operator, ROUNDINGS["bf16"], lambda shape: shape == weights):
        found = audited_module(Zoo(), torch.randn(2, 8, 4, 4), setting=ResolvedSetting(mode=mode))
    assert found.verdict is ProofVerdict.NOT_FP32


@pytest.mark.parametrize(
    ("mode", "product"),
    [
        *((mode, product) for mode in ("eager", "script") for product in (_numpy, _numpy_into_empty, _thread)),
        pytest.param("compile", _thread, marks=COMPILED.marks),
    ],
)
def test_a_product_outside_torch_is_unknown(mode: str, product: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Its result comes back as numbers that no operator computed; torch.compile refuses a model that leaves for numpy.

    If the model is not eager, an eager pass of it reads its result.
    """
    found = audited_module(Outside(product), torch.randn(32, 64), setting=ResolvedSetting(mode=mode))
    assert found.verdict is ProofVerdict.UNKNOWN
    assert re.search(r"operators read (2,048|4,096) numbers that no operator computed", sentence(found))


NAME_LISTS = {
    "modelzoo.evidence.kernel_names._NARROW": (),
    "modelzoo.evidence.logs._BLAS_PRECISION": {},
    **{f"modelzoo.evidence.logs.{each}": re.compile("(?!)") for each in ("_X86_FP32_ISA", "_BF16_ISA")},
}
"""What says which precision a kernel or an operator has by its name, emptied."""


@pytest.fixture
def _no_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a CPU that nobody has seen, and with time for all replays on any."""
    for path, emptied in NAME_LISTS.items():
        monkeypatch.setattr(path, emptied)
    monkeypatch.setattr("modelzoo.evidence.replay.budget_after", lambda seconds, emulated=False: math.inf)
    named_precision.cache_clear()
    yield
    named_precision.cache_clear()


def workload_model(name: str) -> tuple[torch.nn.Module, Any]:
    """The model of a workload and its arguments, as small as it can be, with random weights."""
    workload = load_workload(ROOT / name)
    if name == "bert":  # with 2 layers of 12
        workload.build.__globals__["SIZES"]["base"] = {"num_hidden_layers": 2}
        options = workload.option_values({"size": "base", "sequence": "32"})
        return workload.build(options).eval(), workload.inputs(InputRequest(1, 0, None, options)).args
    model = workload.build(workload.option_values({"min-size": "64"})).eval()
    model.rpn._post_nms_top_n, model.roi_heads.detections_per_img = {"testing": 10}, 5
    return model, ([torch.rand(3, 64, 64)],)


@pytest.mark.usefixtures("_no_names")
@pytest.mark.parametrize(
    ("name", "setting"), [("zoo", AUTOCAST), ("bert", FP32), ("bert", AUTOCAST), ("maskrcnn", FP32)]
)
def test_no_name_of_a_kernel_is_needed_in_eager_mode(name: str, setting: ResolvedSetting) -> None:
    """Errors and types suffice for every product of the workloads with the most kinds of operators."""
    model, args = (Zoo(), (torch.randn(2, 8, 4, 4),)) if name == "zoo" else workload_model(name)
    found = audited_module(model, *args, setting=setting)
    assert (found.coverage.known_arithmetic, found.is_replayed) == (1.0, True)
    assert found.verdict is (ProofVerdict.FP32 if setting == FP32 else ProofVerdict.ACTIVE)


PLANTS = {
    "dynamic-int8": ("int8", "quantized::linear_dynamic"),
    "weight-int8": ("int8 weight-only", "aten::_weight_int8pack_mm"),
    "weight-int4": ("int4 weight-only", "aten::_weight_int4pack_mm_for_cpu"),
    "dynamic-int4": ("int4", "aten::_dyn_quant_matmul_4bit"),
    "fp8": ("fp8", "aten::_scaled_mm"),
    "bf16": ("bf16", None),
    "fp16": ("fp16", None),
}
"""Precision by plant, and the operator that it calls; which kernel that runs depends on the CPU."""
NATIVE_LOOP = "aten::_int_mm (int8)"
"""What torch computes in a loop of its own if oneDNN does not."""
TRACED = ["weight-int8", "weight-int4", "dynamic-int4", "fp8"]
"""Others change their weights in the model, which cannot be traced."""


@pytest.mark.parametrize(
    ("mode", "plant", "where"),
    [
        *(("eager", plant, where) for plant in PLANTS for where in ("all", "one")),
        *(("script", plant, "all") for plant in TRACED),
        *(pytest.param("compile", plant, where, marks=COMPILED.marks) for plant in PLANTS for where in ("all", "one")),
    ],
)
def test_fp32_is_refused(mode: str, plant: str, where: str) -> None:
    """In one layer of four or in all of them; the line names precision and kernel."""
    precision, operator = PLANTS[plant]
    if (mode, plant) == ("compile", "weight-int4"):
        operator = "quantized::int4mm_packed_weight_cpu"  # what inductor calls in its place
    found = audited(replace(FP32, mode=mode), plant, where)
    assert found.verdict is ProofVerdict.NOT_FP32
    uses = [each for each in found.operators if each.precision == precision]
    assert operator is None or operator in {each.operator for each in uses}
    kernels = "|".join(re.escape(each.implementation) for each in uses)
    assert re.match(rf"fp32: NOT FP32 \((linear|matmul) ran in {precision}: .*({kernels})", sentence(found))


def test_bf16_that_is_multiplied_in_fp32_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """On x86, where every bf16 instruction flushes subnormal products, a kernel that keeps them runs none."""
    monkeypatch.setattr(probes, "every_bf16_instruction_flushes", lambda: True)

    def kernel(added: Any, left: Any, right: Any, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
        return (beta * added.float() + alpha * (left.float() @ right.float())).to(left.dtype)

    with replaced("addmm", kernel):
        found = audited(AUTOCAST, "none")
    assert found.verdict is ProofVerdict.NOT_ACTIVE
    assert sentence(found).startswith("bf16: REQUESTED, NOT ACTIVE (bf16 tensors, fp32 arithmetic: subnormal products ")


@pytest.mark.parametrize(
    ("setting", "plant", "where", "verdict", "cause"),
    [
        (AUTOCAST, "fp32", "all", ProofVerdict.NOT_ACTIVE, ""),
        (AUTOCAST, "fp32", "one", ProofVerdict.PARTLY, ""),
        # int8 is not bf16, however little time it takes.
        (AUTOCAST, "dynamic-int8", "one", ProofVerdict.PARTLY, "linear ran in int8: quantized::linear_dynamic (int8)"),
        (INT8, "dynamic-int8", "one", ProofVerdict.PARTLY, ""),
    ],
)
def test_layers_in_another_precision_are_not_what_was_asked_for(
    setting: ResolvedSetting, plant: str, where: str, verdict: ProofVerdict, cause: str
) -> None:
    """All of them: not active; some of them: partly."""
    found = audited(setting, plant, where)
    assert found.verdict is verdict
    assert cause in sentence(found)


@pytest.mark.parametrize(
    ("recipe", "operator", "library"),
    [
        ("dynamic-x86", "quantized::linear_dynamic", "quantized::linear_dynamic (int8)"),
        ("dynamic-onednn", "quantized::linear_dynamic", "oneDNN "),
        ("torchao", "aten::_int_mm", ("oneDNN ", NATIVE_LOOP)),
    ],
)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are the libraries of x86")
def test_int8_by_a_recipe_is_active(recipe: str, operator: str, library: str | tuple[str, ...]) -> None:
    """FBGEMM writes no log, oneDNN does; the bias, which a primitive may add, does not hide it."""
    if recipe == "torchao":
        pytest.importorskip("torchao", reason="torchao is not installed: pip install torchao==0.16.0")
    found = audited(ResolvedSetting("int8", recipe=recipe), examples="mlp")
    assert sentence(found).startswith("int8: ACTIVE (int8 kernels took 100 % of the time in matrix products, ")
    assert {each.operator for each in found.operators} == {operator}
    assert [each.implementation for each in found.operators if not each.implementation.startswith(library)] == []
    # Without AVX-512, torch does not hand this operator to oneDNN.
    loops = {each.implementation for each in found.operators} & {NATIVE_LOOP}
    assert set(found.reference_kernels) == loops


def test_weights_alone_in_int8_are_called_that() -> None:
    """torch's own product keeps them; torchao's converts them back in every call, which saves memory only."""
    packed = sentence(audited(ResolvedSetting("int8", recipe="weight-only-packed"), examples="mlp"))
    assert packed.startswith("int8 weight-only: ACTIVE (int8 weight-only kernels took 100 % of the time in matrix pro")
    pytest.importorskip("torchao", reason="torchao is not installed: pip install torchao==0.16.0")
    converted = sentence(audited(ResolvedSetting("int8", recipe="weight-only"), examples="mlp"))
    cause = "int8 numbers were converted back (aten::_to_copy) and multiplied in fp32: "
    assert converted.startswith(f"int8 weight-only: REQUESTED, NOT ACTIVE ({cause}")


@pytest.mark.parametrize(
    ("plant", "cause"),
    [
        ("none", r"nothing was multiplied in int8: .* computed in fp32"),
        ("dequantized", r"int8 numbers were converted back \(aten::dequantize.*\) and multiplied in fp32: "),
        ("converted", r"int8 numbers were converted back \(aten::_to_copy\) and multiplied in fp32: "),
        ("fp16", r"nothing was multiplied in int8: .* computed in fp16"),
        ("bf16", r"nothing was multiplied in int8: .* computed in bf16"),
    ],
)
def test_int8_is_refused_if_nothing_ran_in_it(plant: str, cause: str) -> None:
    """The line says what was multiplied instead, and whether something was quantized at all."""
    found = audited(INT8, plant)
    assert found.verdict is ProofVerdict.NOT_ACTIVE
    assert re.match(rf"int8: REQUESTED, NOT ACTIVE \({cause}", sentence(found))


def test_a_slow_loop_over_int8_is_a_reference_kernel() -> None:
    """Where oneDNN does not compute ``_int_mm``, torch multiplies number by number: int8, and slow."""
    found = audited(INT8, "int8-loop")
    assert (found.verdict, found.reference_kernels) == (ProofVerdict.ACTIVE, (NATIVE_LOOP,))
    assert found.reference_share > REFERENCE_SHARE


def test_an_operator_that_nobody_knows_is_unknown() -> None:
    """A product of an extension shows nothing, although its tensors are fp32 and the canary is."""
    library = torch.library.Library("planted", "DEF")
    try:
        library.define("linear(Tensor x, Tensor w) -> Tensor")
        library.impl("linear", lambda x, w: (x.double() * w.double().sum()).float(), "CPU")
        found = audited_module(Outside(lambda x: torch.ops.planted.linear(x, x)), torch.randn(64, 64))
    finally:
        library._destroy()
    assert found.verdict is ProofVerdict.UNKNOWN
    assert "the operations of planted::linear are not known" in sentence(found)
    assert found.coverage.uncounted == ("planted::linear",)
    assert {each.not_replayed for each in found.products} == {None, NotReplayed.NO_REFERENCE}


STRICT = ["--weights", "random", "--strict", "--processes", "1", "--iterations", "3", "--threads", "1"]


def test_wrong_results_are_said_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One channel of 512 of one layer: before the time, in the objection of --strict, and in JSON."""
    result = tmp_path / "r.json"
    plant = ["--precision", "fp32", "--option", "plant=wrong", "--option", "where=one"]
    assert cli.main(["run", str(PLANTED), *STRICT, *plant, "--json", str(result)]) == 1
    said = capsys.readouterr().err.splitlines()
    first, *others = [each for each in said if not re.search("elapsed|finished", each)]
    assert first.startswith("WRONG RESULTS in fp32: modelzoo::linear (fp32, 64×512, 512×512; kernel: ")
    assert any(re.search("--strict: .*WRONG RESULTS .*times as far as rounding explains", each) for each in others)
    assert cli.main(["report", str(result), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["precision"] == "WRONG_RESULTS"
    assert row["wrong"][0]["wrong"]["fault"] == "error"


@pytest.mark.slow
@HAS_COMPILER
def test_products_in_templates_of_max_autotune_are_unknown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They call no library and are no operators; the operations that torch counts show that something is missing."""
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS", "CPP")
    assert cli.main(["run", str(PLANTED), *STRICT, "--precision", "fp32", "--mode", "max-autotune"]) == 1
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "--strict:" in each]
    assert "fp32: UNKNOWN (the precision of 100 % of the arithmetic is not known" in line
    assert "inductor C++ kernels" in line


def test_the_smoke_test_of_images_has_an_operator_of_every_class() -> None:
    """Whose kernel is known: the images' test asks for a convolution, Linear, matrix product and attention."""
    workload = load_workload(ROOT / "tests" / "docker" / "every_class")
    args = workload.inputs(InputRequest(2, 0, None, {})).args
    found = audited_module(workload.build({}), *args)
    assert {use.operator_class for use in found.operators} == set(OperatorClass)

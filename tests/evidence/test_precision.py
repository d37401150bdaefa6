"""What a product shows itself, beside what the log says of it; the proof from the kernels of an accelerator."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Any, ClassVar

import onednn_recordings as recordings
import pytest
import torch
from evidence_samples import ALL_FP32, SGEMM, adds_up, canary, conv, gemm, judge, onednn_line, recording, sentence
from torch.autograd import profiler

from modelzoo.evidence import precision as precisions
from modelzoo.evidence import recording as recorder
from modelzoo.evidence.kernel_names import UNKNOWN
from modelzoo.evidence.logs import LoggedCall, logged_call, parse_mkl, parse_onednn
from modelzoo.evidence.precision import (
    DeviceKernel,
    PrecisionProof,
    device_digest,
    kernel_category,
    kernel_class,
    kernel_precision,
    operand_precision,
    own_proof,
    short_name,
)
from modelzoo.evidence.recording import Plan, Printed, RecordedCall, record_pass
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.coverage import MOVEMENT, NATIVE
from modelzoo.records.evidence import (
    Disagreement,
    Evidence,
    LogSource,
    NotReplayed,
    OperatorClass,
    Product,
    ProofSource,
    ProofVerdict,
)

MM = Product("aten::mm", OperatorClass.MATMUL, ((4, 16), (16, 8)), "fp32", 1, kernels=(), error=1e-7, shown="fp32")
LINEAR = replace(MM, operator="aten::addmm", operator_class=OperatorClass.LINEAR, shapes=((8,), (4, 16), (16, 8)))


@pytest.mark.parametrize(
    ("operands", "logged", "shown", "expected"),
    [
        ("fp32", "fp32", "fp32", PrecisionProof("fp32", ProofSource.BOTH)),
        ("fp32", "fp32", "bf16", PrecisionProof("bf16", ProofSource.REPLAY)),
        ("fp32", "bf16", "fp32", PrecisionProof(UNKNOWN, ProofSource.NOTHING)),
        ("bf16", "bf16", "bf16", None),
        ("bf16", None, "fp32", None),
        ("bf16", "bf16", "int8", PrecisionProof("int8", ProofSource.REPLAY)),
    ],
)
def test_own_proof(operands: str, logged: str | None, shown: str | None, expected: PrecisionProof | None) -> None:
    """Log and error of fp32 operands must agree; bf16 operands show only that nothing narrower was multiplied."""
    assert own_proof(replace(MM, operands=operands, logged=logged, shown=shown)) == expected


def logged(text: str) -> LoggedCall:
    return logged_call(parse_onednn(text), parse_mkl(text))


def test_calls_that_ran_the_same_are_equal() -> None:
    """Times and addresses differ at every call; kernels, sizes and attributes decide."""
    one, other = (onednn_line("matmul", "gemm:acl", "f32", milliseconds=taken) for taken in (0.5, 7))
    allowed = onednn_line("matmul", "gemm:acl", "f32", attributes="attr-fpmath:bf16")
    assert logged(one) == logged(other)
    assert logged(allowed).precision is None, "the kernel may use bf16 or not"
    assert logged(SGEMM) == logged(SGEMM.replace("0x7ffe", "0x8f").replace("1.2ms", "2us"))
    for different in (one.replace("gemm:acl", "brgemm"), allowed, one + "\n" + one, one.replace("16x8", "16x9")):
        assert logged(one) != logged(different)


def judged(*products: Product, requested: str = "fp32", method: str | None = None, checks: str = "fp32") -> Evidence:
    """Two products outside oneDNN, and a canary of which every operator showed ``checks``."""
    calls = (gemm("aten::addmm", "float32", 3.0), gemm("aten::mm", "float32", 1.0))
    seen = canary(checks, checks, checks)
    return judge(recording(*calls, products=products, replay_seconds=0.1), seen, requested, method)


def test_each_product_answers_for_itself() -> None:
    """Whatever the canary shows at shapes of its own; shares are of the time of the passes."""
    found = judged(LINEAR, MM, checks="bf16")
    assert found.verdict is ProofVerdict.FP32
    assert found.is_replayed
    assert [(each.precision, each.known_by, each.share) for each in found.products] == [
        ("fp32", ProofSource.REPLAY, 0.75),
        ("fp32", ProofSource.REPLAY, 0.25),
    ]
    assert {each.canary_level for each in found.classes} == {None}
    assert sentence(found) == (
        "fp32: VERIFIED (no bf16 kernel in the audit, largest error in the replays of 2 products 1e-07)"
    )


def test_the_canary_speaks_for_those_that_were_not_replayed() -> None:
    """It is enough in its own class, as without replays."""
    silent = replace(MM, error=None, shown=None, not_replayed=NotReplayed.BUDGET)
    assert judged(LINEAR, silent).verdict is ProofVerdict.FP32
    assert "largest error in the replays of 1 of 2 products 1e-07, canary error 2e-07" in sentence(
        judged(LINEAR, silent)
    )
    assert judged(LINEAR, silent, checks="bf16").verdict is ProofVerdict.NOT_FP32


@pytest.mark.parametrize(
    ("logged", "shown", "requested", "method", "verdict"),
    [
        ("fp32", "bf16", "fp32", None, ProofVerdict.NOT_FP32),
        ("bf16", "fp32", "fp32", None, ProofVerdict.UNKNOWN),
        ("fp32", "bf16", "bf16", "fastmath", ProofVerdict.UNKNOWN),
        ("bf16", "fp32", "bf16", "fastmath", ProofVerdict.UNKNOWN),
    ],
)
def test_log_and_error_that_disagree_are_a_finding(
    logged: str, shown: str, requested: str, method: str | None, verdict: ProofVerdict
) -> None:
    """Neither is believed; but an error below fp32 is not fp32, whatever the kernel is called."""
    odd = replace(MM, error=2e-3 if shown == "bf16" else 1e-7, logged=logged, shown=shown)
    found = judged(LINEAR, odd, requested=requested, method=method)
    assert found.verdict is verdict
    assert isinstance(found.reason, Disagreement)
    assert [each.operator for each in found.reason.products] == ["aten::mm"]
    assert f"the kernel log names {logged} for aten::mm, and its error" in sentence(found)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float32", "float32"), "fp32"),
        (("bfloat16", "bfloat16", "float32"), "bf16"),
        (("float32", "bfloat16"), "unknown"),
        (("float32", "int8"), "int8"),
        (("float8_e4m3fn", "float8_e4m3fn", "float32"), "fp8"),
        (("int64", "float64", "float64"), "fp64"),
        ((), "unknown"),
    ],
)
def test_operand_precision(dtypes: tuple[str, ...], expected: str) -> None:
    """The first two floating-point tensors must agree; a quantized one decides wherever it is."""
    assert operand_precision(dtypes) == expected


DATA = Path(__file__).resolve().parents[1] / "data"
TF32 = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4"
FP32 = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_tilesize128x128x8_stage3_ffma"
BF16 = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_nn"
UNDOCUMENTED = "nvjet_tst_192x16_64x8_2x2_2cta_h_bz_TNT"
RELU = "void at::native::vectorized_elementwise_kernel<4, float>(int)"


def launched(call: RecordedCall, name: str) -> RecordedCall:
    """A call that launched this kernel."""
    return replace(call, printed=Printed(kernels=(DeviceKernel(name, 1.0, 0),)))


def judged_calls(
    *calls: RecordedCall, asked: str = "fp32", method: str | None = None, seen: Canary = ALL_FP32, **facts: Any
) -> Evidence:
    """The evidence of one pass."""
    found = recording(*calls, device="cuda", log_source=LogSource.PROFILER)
    return judge(replace(found, **facts), seen, asked, method)


def graph(name: str) -> dict[str, Any]:
    """What a pass is that replays a graph: a kernel that no operator launches."""
    return {"outside": (Printed(kernels=(DeviceKernel(name, 1.0),)),), "eager": None}


REDUCED = canary("reduced", "reduced", "reduced")


def test_tf32_is_a_precision_of_its_own() -> None:
    """Its operands and outputs are fp32, and it is never fp32; asked for, it is proven by the same kernels."""
    tf32, fp32 = launched(conv(1.0), TF32), launched(conv(1.0), FP32)
    assert sentence(judged_calls(tf32)).startswith("fp32: NOT FP32 (conv ran in tf32: sm80_xmma_fprop")
    assert judged_calls(tf32, asked="tf32", seen=REDUCED).verdict == "ACTIVE"
    assert sentence(judged_calls(fp32, asked="tf32")).startswith("tf32: REQUESTED, NOT ACTIVE (")
    both = judged_calls(tf32, fp32, asked="tf32", seen=REDUCED)
    assert sentence(both).startswith("tf32: PARTLY (conv partly; tf32 kernels took 50 % of the time in matrix products")


def test_an_undocumented_name_leaves_the_proof_to_the_operator() -> None:
    """bf16 operands prove bf16; fp32 operands may be rounded, so the canary decides."""
    kernel = launched(gemm("aten::mm", "float32"), UNDOCUMENTED)
    bf16 = launched(gemm("aten::mm", "bfloat16"), UNDOCUMENTED)
    assert judged_calls(bf16, asked="bf16", method="autocast").verdict == "ACTIVE"
    assert judged_calls(kernel).verdict == "FP32"
    assert judged_calls(kernel, seen=REDUCED).verdict == "NOT_FP32"
    assert judged_calls(kernel, asked="tf32", seen=REDUCED).verdict == "ACTIVE"


@pytest.mark.parametrize("name", [UNDOCUMENTED, "my_own_kernel"])
def test_an_unknown_kernel_without_an_operator_cannot_be_proven(name: str) -> None:
    """Neither its name nor the types of its operands are known: nothing is guessed, and ``--strict`` fails."""
    found = judged_calls(asked="bf16", method="autocast", **graph(name))
    assert sentence(found) == "bf16: UNKNOWN (what ran in 100 % of the time is not known (no operator 100 %))"
    assert judged_calls(**graph(name)).verdict == "UNKNOWN"


def test_a_replayed_kernel_has_the_types_of_the_operator_that_launched_it_elsewhere() -> None:
    """A graph launches without operators; the same kernel in the eager model shows what it multiplies."""
    found = judged_calls(asked="bf16", method="cast", **graph(UNDOCUMENTED), operands={UNDOCUMENTED: "bf16"})
    assert found.verdict == "ACTIVE"
    assert found.operators[0].operator == "no operator"


VERDICTS = {"fp32": "FP32", "compile": "FP32", "tf32": "PARTLY"}
"""For some convolutions, cuDNN chose a kernel in fp32 although TF32 was allowed."""


@pytest.mark.parametrize("path", recordings.CUDA_TABLES, ids=lambda path: path.stem)
@pytest.mark.parametrize("has_names", [True, False])
def test_recorded_passes(path: Path, has_names: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products that are called again prove their precision, whatever their kernels are called; of those that a graph
    replays, the names and the eager pass are known.
    """
    table = recordings.load_table(path)
    if not has_names:
        for name in ("kernel_class", "kernel_precision", "kernel_category"):
            monkeypatch.setattr(precisions, name, lambda name: None)
    found = judge(table.recording, table.canary, table.requested, table.bf16_method)
    is_graph = table.mode == "graph"
    assert found.verdict == ("UNKNOWN" if is_graph and not has_names else VERDICTS.get(table.mode, "ACTIVE"))
    assert found.coverage.lists_all is is_graph or not has_names
    assert adds_up(found) and found.problems == ()
    assert [each.call for each in found.products if each.call is not None] == [], "each ran as it was asked to"


class Range(contextlib.nullcontext[None]):
    """A range of the profiler; ``names`` has those that were entered."""

    names: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        super().__init__()
        self.names.append(name)


@pytest.mark.parametrize("device", ["cuda", "npu"])
def test_a_pass_on_a_device_is_recorded(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call has the kernels that it launched, or its own time where no profiler knows any; its products are called
    again, and every call is waited for. What is seen of the host, such as numbers that no operator computed, says
    nothing of it.
    """

    def profiled(call: Any, kind: str, synchronize: Any, written: Any, problems: list[str]) -> Any:
        Range.names.clear()
        call()
        if kind == "npu":
            problems.append("no profiler")
            return ()
        return [DeviceKernel("mystery", 2.0, int(name.split()[-1])) for name in Range.names]

    monkeypatch.setattr(profiler, "record_function", Range)
    monkeypatch.setattr(recorder, "run_device_profiled", profiled)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 8)
    )
    numbers, waits = torch.rand(2, 3, 8, 8).numpy(), list[int]()
    plan = Plan(
        model=network,
        budget=lambda seconds: math.inf,
        device=device,
        synchronize=lambda: waits.append(1),
    )
    with torch.inference_mode():
        found = record_pass(lambda: network(torch.from_numpy(numbers.copy())), plan)
    assert (found.foreign, found.subnormal, found.blas, found.onednn_version) == (0, 0.0, "", "")
    assert len(waits) >= len(found.calls) >= 4
    assert "aten::equal" not in {each.call.name for each in found.calls}, "outputs are compared after the pass"
    evidence = judge(found, None, "fp32")
    assert (evidence.verdict, evidence.coverage.known_arithmetic) == ("FP32", 1.0)
    kernels = {each.implementation for each in evidence.operators}
    assert kernels == ({"mystery"} if device == "cuda" else {"aten::convolution", "aten::addmm"})
    assert {each.kernels for each in evidence.products} == {(name,) for name in kernels}
    assert evidence.problems == (() if device == "cuda" else ("no profiler",))
    assert evidence.seconds == (2.0 * len(found.calls) if device == "cuda" else sum(e.seconds for e in found.calls))


def test_the_digest_counts_the_products() -> None:
    """Processes that ran the same kernels equally often have the same digest."""
    kernels = [DeviceKernel(name, 1.0) for name in (TF32, TF32, BF16, RELU)]
    found = device_digest(kernels)
    assert found is not None
    assert {(each.precision, each.count) for each in found.kernels} == {("tf32", 2), ("bf16", 1)}
    assert device_digest(kernels[::-1]) == found
    assert device_digest(kernels[1:]) != found
    assert device_digest([DeviceKernel(RELU, 1.0)]) is None


PRODUCTS = [
    # https://github.com/NVIDIA/TransformerEngine/issues/1391
    (
        "sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128_warpgroupsize1x1x1_execute_segment_k_off_kernel"
        "__5x_cublas",
        "matmul",
        "fp8",
    ),
    # https://github.com/NVIDIA/cutlass/issues/520 and 466: fp32 operands without a type are rounded to TF32
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>(Params)", "matmul", "tf32"),
    # https://github.com/pytorch/pytorch/issues/54324
    ("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc2nchw_tn_v1", "conv", "fp16"),
    ("maxwell_scudnn_128x128_relu_interior_nn_v1", "conv", "fp32"),
    ("void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128>(Params)", "matmul", "bf16"),
    ("void pytorch_flash::flash_fwd_kernel<Flash_kernel_traits<128, cutlass::bfloat16_t>>(P)", "attention", "bf16"),
    # What these multiply with, their names do not say.
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6_64x64x64_4x1x1", "attention", None),
    ("triton_tem_fused_mm_3", "matmul", None),
]


@pytest.mark.parametrize(("name", "kind", "precision"), PRODUCTS)
def test_products(name: str, kind: str, precision: str | None) -> None:
    """What a kernel computes, and in which precision if its name proves that."""
    assert (str(kernel_class(name)), kernel_precision(name)) == (kind, precision)


def test_a_copy_is_no_computation() -> None:
    """Nor is a reorder; a batch norm is one, and neither multiplies matrices."""
    names = ("Memcpy HtoD (Pageable -> Device)", "void cudnn::ops::nchwToNhwcKernel<__half, __half, float>(Params)")
    assert [kernel_category(name) for name in (*names, RELU)] == [MOVEMENT, MOVEMENT, NATIVE]


RECORDED = json.loads((DATA / "cuda_h100_torch2.11.0.json").read_text(encoding="utf-8"))["kernels"]
# Parts of cuDNN's FFT convolutions, and a kernel of cuDNN for few rows: their names say neither what they compute nor
# in which precision, so the operator that launched them decides.
BY_OPERATOR = {f"fft2d_{way}_{size}x{size}" for way in ("r2c", "c2r") for size in (16, 32, 64)}


def products(precision: str) -> dict[str, str | None]:
    """The products that the four networks launched on an H100 when ``precision`` was asked for, by their names."""
    names = (each["name"] for each in RECORDED if each["precision"] == precision)
    return {name: kernel_precision(name) for name in names if kernel_class(name) is not None}


def test_every_recorded_kernel_is_known() -> None:
    """Of the libraries' kernels on an H100, only parts of FFT convolutions are known by nothing but their operator."""
    unknown = {
        short_name(each["name"])
        for each in RECORDED
        if kernel_class(each["name"]) is None and kernel_category(each["name"]) is None
    }
    assert unknown == {*BY_OPERATOR, "internal::region_transform_ABC_val"}


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        ("fp32", {"fp32", None}),
        # cuDNN multiplies a convolution of one pixel as TF32, and products of few rows of bf16 in fp32.
        ("bf16", {"bf16", "tf32", "fp32", None}),
        ("fp16", {"fp16", "tf32", None}),
        ("bf16=cast", {"bf16", None}),
    ],
)
def test_precisions_of_recorded_kernels(asked: str, ran: set[str | None]) -> None:
    """Where a name says another precision than the one that was asked for, the library chose another."""
    assert set(products(asked).values()) == ran


def test_tf32_of_recorded_kernels() -> None:
    """With TF32 on, only kernels without tensor cores multiply in fp32, whatever type their operands have in memory."""
    in_fp32 = [name for name, precision in products("tf32").items() if precision == "fp32"]
    assert [name for name in in_fp32 if not re.search("ffma|sgemm|gemmSN|gemv", name)] == []
    assert "tf32" in products("tf32").values() and in_fp32

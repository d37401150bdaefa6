"""oneDNN's and MKL's verbose output is parsed, in the formats of all versions, and compared between processes."""

from __future__ import annotations

import json
from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import SGEMM, conv_line, onednn_line

from modelzoo.evidence.canary import level_of
from modelzoo.evidence.kernel_names import UNKNOWN, precision_of
from modelzoo.evidence.logs import (
    BF16_ALLOWED,
    Primitive,
    kernel_digest,
    logged_precision,
    parse_mkl,
    parse_onednn,
    problem_flop,
)
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import KernelCalls, KernelDigest

V2 = (
    "onednn_verbose,exec,cpu,convolution,gemm:acl,forward_training,src_f32::blocked:acdb:f0 "
    "wei_f32::blocked:acdb:f0 bia_f32::blocked:a:f0 dst_f32::blocked:acdb:f0,"
    "attr-scratchpad:user attr-fpmath_mode:fpmath_mode_bf16 ,alg:convolution_direct,"
    "mb4_ic32oc64_ih56oh56kh3sh1dh0ph1_iw56ow56kw3sw1dw0pw1,9576.97"
)
V35 = (
    "onednn_verbose,primitive,exec,cpu,matmul,gemm:acl,undef,src_f32::blocked:ab::f0 "
    "wei_bf16:a:blocked:BA4b4a::f0 dst_f32::blocked:ab::f0,attr-scratchpad:user attr-fpmath:bf16 "
    "attr-post-ops:sum,,128x256:256x128,493.542"
)
V37 = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,"
    "src:bf16::blocked:abc::f0 wei:bf16::blocked:abc::f0 dst:bf16::blocked:abc::f0,,,"
    "12x384x64:12x64x384,0.5"
)


def read(line: str, architecture: str = "") -> Primitive:
    """The only primitive of a log of one line."""
    (found,) = parse_onednn(line, architecture).primitives
    return found


def test_formats_of_all_versions() -> None:
    """The line formats of oneDNN 2.6, 3.5 and 3.7 have the same fields."""
    two, five, seven = map(read, (V2, V35, V37))
    assert (two.kind, two.implementation, two.prop) == ("convolution", "gemm:acl", "forward_training")
    assert two.tensors == {"src": "f32", "wei": "f32", "bia": "f32", "dst": "f32"}
    assert two.attributes == {"scratchpad": "user", "fpmath": "bf16"}
    assert two.seconds == pytest.approx(9.57697)
    assert five.tensors == {"src": "f32", "wei": "bf16", "dst": "f32"}
    assert five.attributes == {"scratchpad": "user", "fpmath": "bf16", "post-ops": "sum"}
    assert (seven.implementation, seven.tensors["src"]) == ("brg_matmul:avx512_core_bf16", "bf16")


def test_what_cannot_be_read_is_counted_and_everything_else_ignored() -> None:
    """Timestamps, an older name, and other output on the line do no harm; incomplete lines may be products."""
    readable = (
        V37.replace("onednn_verbose,v1,", "onednn_verbose,v1,1700000000.123,"),
        V35.replace("onednn_verbose,", "onednn_verbose,1700000000.123,"),
        V2.replace("onednn_verbose", "dnnl_verbose"),
        "progress 50 %" + V37,
    )
    ignored = (
        "hello, world",
        "onednn_verbose,",
        "onednn_verbose,v1,primitive,create:cache_hit,cpu,matmul,x,undef,a,b,c,1x1:1x1,0.01",
    )
    unread = (
        "onednn_verbose,v1,graph,exec,cpu,100002,matmul,a,b,c,d,0.1",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg",
        V37[:-3] + "fast",
    )
    log = parse_onednn("\n".join((*readable, *ignored, *unread)))
    assert (len(log.primitives), log.unread) == (len(readable), unread)


def test_packing_a_matrix_for_a_microkernel_multiplies_nothing() -> None:
    """The line is as src/cpu/x64/ukernel/transform.cpp of oneDNN writes it; none of the recordings has one."""
    tensors = "src:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0"
    line = f"onednn_verbose,v1,ukernel,exec,cpu,transform,pack_B,undef,{tensors},,,384x64,0.01"
    assert (read(line).kernel, read(line).is_compute) == ("transform pack_B", False)


@pytest.mark.parametrize(
    ("line", "precision"),
    [
        (V2, BF16_ALLOWED),
        (V2.replace("attr-fpmath_mode:fpmath_mode_bf16", ""), "fp32"),
        (V2.replace("gemm:acl", "jit:avx512_core"), "fp32"),
        (V2.replace("gemm:acl", "brgconv:avx512_core_amx"), "bf16"),
        (V35, "bf16"),
        (V37.replace("bf16::", "u8::"), "int8"),
        (V37.replace("bf16::", "f64::"), "fp64"),
        (V37.replace("bf16::", "f77::"), "unknown"),
    ],
)
def test_precision_of_a_primitive(line: str, precision: str) -> None:
    """Operands stored as bf16 prove bf16; if it is only allowed, the kernel's name must show it."""
    assert logged_precision(read(line)) == precision


@pytest.mark.parametrize(
    ("kind", "kernel", "on_arm", "on_x86"),
    [
        ("convolution", "gemm:ref", True, False),
        ("matmul", "gemm:jit:f32", True, False),
        ("convolution", "gemm_s8s8s32:ref", True, False),
        ("gemm_api", "", True, False),
        ("convolution", "x64:gemm:jit", False, False),
        ("matmul", "gemm:acl", False, False),
        ("convolution", "indirect_gemm:kai", False, False),
        ("matmul", "ref:any", True, True),
        ("deconvolution", "conv:any+ref:any", True, True),
        ("deconvolution", "conv:any+jit:sve_256", False, False),
        ("reorder", "ref:any", False, False),
    ],
)
def test_which_kernels_are_reference_kernels(kind: str, kernel: str, on_arm: bool, on_x86: bool) -> None:
    """oneDNN generates its own gemm on x86 only; on ARM the same names, and its interface, are plain loops."""
    line = V35.replace("matmul,gemm:acl", f"{kind},{kernel}")
    for architecture, expected in (("aarch64", on_arm), ("x86_64", on_x86), ("", on_x86)):
        assert read(line, architecture).is_reference is expected, architecture


@pytest.mark.parametrize(
    ("kind", "problem", "flop"),
    [
        ("convolution", ",mb4_ic32oc64_ih56oh28kh3sh2dh0ph1_iw56ow28kw3sw2dw0pw1", 2 * 4 * 64 * 28 * 28 * 32 * 9),
        ("convolution", ",mb1_g32ic32oc32_ih8oh8kh3_iw8ow8kw3", 2 * 32 * 8 * 8 * 9),
        ("deconvolution", ",mb1_ic8oc4_ih8oh16kh2_iw8ow16kw2", 2 * 8 * 8 * 8 * 4 * 4),
        ("inner_product", ",mb2ic16ih2iw2oc8", 2 * 2 * 16 * 4 * 8),
        ("gemm_api", ",128x256:256x64", 2 * 128 * 256 * 64),  # dnnl_sgemm, without an implementation
        ("brgemm", "bs:3 beta:1,4x16:16x8", 3 * 2 * 4 * 16 * 8),  # a microkernel, which adds up several products
        ("brgemm", "beta:1,4x16:16x8", None),
        ("rnn", ",l1t2mb3", None),
        ("invented_tomorrow", ",4x16:16x8", None),
    ],
)
def test_the_operations_of_a_product(kind: str, problem: str, flop: int | None) -> None:
    """Each output, or input of a deconvolution, is multiplied by one filter of its group."""
    found = read(f"onednn_verbose,v1,primitive,exec,cpu,{kind},,undef,src:f32::blocked:ab::f0,,{problem},1")
    assert (found.is_compute, problem_flop(found)) == (True, flop)


@pytest.mark.parametrize("path", recordings.AMX_ATTENTION, ids=lambda path: path.stem)
def test_attention_in_microkernels(path: Path) -> None:
    """Recorded on a CPU with AMX: every line is a product in bf16, and together they do all of attention's FLOPs."""
    text = path.read_text()
    log = parse_onednn(text)
    assert (len(log.unread), len(log.primitives)) == (0, text.count("ukernel,exec"))
    assert {(each.kernel, logged_precision(each)) for each in log.primitives} == {("brgemm", "bf16")}
    heads, rows, columns = 4, 384, 64
    assert sum(problem_flop(each) or 0 for each in log.primitives) == 2 * 2 * heads * rows * rows * columns


@pytest.mark.parametrize("path", [*recordings.OWN_RECORDINGS, *recordings.ARM_RECORDINGS], ids=lambda path: path.stem)
def test_own_recordings(path: Path) -> None:
    """Every exec line recorded on x86 and on emulated ARM is parsed, and every product has a precision."""
    found = recordings.load_log(path)
    log = parse_onednn(found.output)
    assert (log.unread, len(log.primitives)) == ((), found.output.count("exec,cpu"))
    # For AVX2 and Neoverse N1, oneDNN has no kernels in bf16, so torch computes what is cast to it.
    has_bf16 = not any(name in path.stem for name in ("neoverse-n1", "-avx2"))
    is_silent = found.mode == "off" or (found.bf16_method in ("autocast", "cast") and not has_bf16)
    assert any(each.is_compute for each in log.primitives) is not is_silent
    # Lines of some microkernels show no types.
    products = [each for each in log.primitives if each.is_compute and each.tensors]
    allowed = {BF16_ALLOWED} if "aarch64" in path.stem else set()
    assert {logged_precision(each) for each in products} <= {"fp32", "bf16"} | allowed


def test_what_mkl_multiplied_is_counted() -> None:
    """By the sizes of GEMM and GEMV; a batch's are behind pointers, and count nothing."""
    gemm = "MKL_VERBOSE SGEMM(T,N,768,384,64,0x1,0x2,64,0x3,64,0x4,0x5,768) 2.00ms CNR:OFF FastMM:1 TID:0  NThr:2"
    calls = parse_mkl(
        "\n".join(
            (
                gemm,
                gemm.replace("TID:0", "TID:1"),
                "MKL_VERBOSE SGEMV(T,16,8,0x1,0x2,16,0x3,1,0x4,0x5,1) 1.00us CNR:OFF FastMM:1 TID:0  NThr:2",
                "MKL_VERBOSE SGEMM_BATCH(0x1,0x2,0x3,0x4) 1.00us CNR:OFF FastMM:1 TID:0  NThr:2",
            )
        )
    )
    assert [(each.function, each.count, each.flop) for each in calls] == [
        ("SGEMM", 2, 2 * 2 * 768 * 384 * 64),
        ("SGEMM_BATCH", 1, 0),
        ("SGEMV", 1, 2 * 16 * 8),
    ]
    assert calls[0].seconds == pytest.approx(2e-3), "that of the main thread"


LEVELS = {"bfloat16": CanaryLevel.BF16, "float16": CanaryLevel.REDUCED, "float32": CanaryLevel.FP32}


@pytest.mark.parametrize("path", recordings.CALLS, ids=lambda path: path.stem)
def test_the_log_and_the_error_of_a_product_show_the_same_precision(path: Path) -> None:
    """Under every limit; but for the convolution whose results are wrong on AMX, whatever its line says."""
    recorded = json.loads(path.read_text())
    for call in recorded["calls"]:
        log = parse_onednn("\n".join(call["lines"]))
        assert log.unread == (), call["product"]
        products = [each for each in log.primitives if each.is_compute]
        assert {logged_precision(each) for each in products} <= {precision_of(call["dtype"])}, call["product"]
        is_wrong = call["product"] == "conv1d_grouped_wrong" and recorded["isa"] == "ALL"
        expected = CanaryLevel.BROKEN if is_wrong else LEVELS[call["dtype"]]
        assert level_of(call["error"]) == expected, call["product"]


CONV = conv_line("jit:avx512_core", "f32", 1.5)
MATMUL = onednn_line("matmul", "brg_matmul:avx512_core_bf16", "bf16", "128x256:256x64")
REORDER = onednn_line("reorder", "jit:uni", "src:f32 dst:bf16", "128x256", 0.01)


def digest_of(*lines: str) -> KernelDigest:
    """The digest of this output."""
    digest = kernel_digest("\n".join(lines))
    assert digest is not None
    return digest


def test_kernels_are_counted_by_name_and_precision() -> None:
    """Those of oneDNN and of MKL that multiply matrices."""
    vml = "MKL_VERBOSE vsExp(1000,0x1,0x2) 3.2us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"
    bf16 = SGEMM.replace("SGEMM", "GEMM_BF16BF16F32")
    digest = digest_of(CONV, REORDER, MATMUL, MATMUL, SGEMM, vml, bf16, "what the model prints")
    assert digest.kernels == (
        KernelCalls("MKL gemm_bf16bf16f32", "bf16", 1),
        KernelCalls("MKL sgemm", "fp32", 1),
        KernelCalls("oneDNN convolution jit:avx512_core", "fp32", 1),
        KernelCalls("oneDNN matmul brg_matmul:avx512_core_bf16", "bf16", 2),
    )


@pytest.mark.parametrize(
    "other",
    [
        (MATMUL, CONV),
        (CONV.replace(",1.5", ",9.75"), MATMUL),
        (CONV, REORDER, MATMUL),
        (CONV.replace("mb1_", "mb7_"), MATMUL.replace("128x256:", "52x256:")),
    ],
)
def test_order_times_reorders_and_the_number_of_items_do_not_matter(other: tuple[str, ...]) -> None:
    """In a detector, the number of items depends on the data."""
    assert digest_of(*other) == digest_of(CONV, MATMUL)


@pytest.mark.parametrize(
    "other",
    [
        (CONV,),
        (CONV, MATMUL, MATMUL),
        (CONV.replace("jit:avx512_core", "ref:any"), MATMUL),
        (CONV.replace("ic8oc8", "ic8oc16"), MATMUL),
        (CONV, MATMUL.replace("x64,", "x65,")),
        (CONV, MATMUL.replace("wei:bf16", "wei:f32").replace("src:bf16", "src:f32")),
        (CONV, MATMUL, SGEMM),
    ],
)
def test_another_kernel_shape_precision_or_number_of_calls_is_seen(other: tuple[str, ...]) -> None:
    """Whatever may change what is proven."""
    assert digest_of(*other).sha256 != digest_of(CONV, MATMUL).sha256


@pytest.mark.parametrize("output", ["", REORDER, "no log"])
def test_without_a_product_in_the_log_there_is_none(output: str) -> None:
    """A pass of which no kernel is known must not count as equal to another one."""
    assert kernel_digest(output) is None


def test_a_line_that_cannot_be_read_is_compared_as_it_is() -> None:
    """It may be a product: a pass without it, or with another one, is not equal."""
    unread = "onednn_verbose,v1,tomorrow,exec,cpu,x,0.5"
    digest = digest_of(CONV, unread)
    assert digest == digest_of(unread.replace("0.5", "0.75"), CONV)
    assert KernelCalls("oneDNN, unread line", UNKNOWN, 1) in digest.kernels
    for other in ((CONV,), (CONV, unread, unread), (CONV, unread.replace("x", "y"))):
        assert digest_of(*other).sha256 != digest.sha256

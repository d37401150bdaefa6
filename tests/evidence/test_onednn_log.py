"""oneDNN's and MKL's verbose output is parsed, in the formats of all versions."""

from __future__ import annotations

from pathlib import Path

import onednn_recordings as recordings
import pytest

from modelzoo.evidence.logs import (
    BF16_ALLOWED,
    logged_precision,
    parse_mkl,
    parse_onednn,
    problem_flop,
)

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


def test_formats_of_all_versions() -> None:
    """The line formats of oneDNN 2.6, 3.5 and 3.7 have the same fields."""
    two, five, seven = parse_onednn("\n".join((V2, V35, V37))).primitives
    assert (two.kind, two.implementation, two.prop) == ("convolution", "gemm:acl", "forward_training")
    assert two.tensors == {"src": "f32", "wei": "f32", "bia": "f32", "dst": "f32"}
    assert two.attributes == {"scratchpad": "user", "fpmath": "bf16"}
    assert two.seconds == pytest.approx(9.57697)
    assert five.tensors == {"src": "f32", "wei": "bf16", "dst": "f32"}
    assert five.attributes == {"scratchpad": "user", "fpmath": "bf16", "post-ops": "sum"}
    assert (seven.implementation, seven.tensors["src"]) == ("brg_matmul:avx512_core_bf16", "bf16")


@pytest.mark.parametrize(
    "line",
    [
        V37.replace("onednn_verbose,v1,", "onednn_verbose,v1,1700000000.123,"),
        V35.replace("onednn_verbose,", "onednn_verbose,1700000000.123,"),
        V2.replace("onednn_verbose", "dnnl_verbose"),
        "progress 50 %" + V37,
    ],
)
def test_prefixes(line: str) -> None:
    """Timestamps, the older name and other output on the same line are ignored."""
    log = parse_onednn(line)
    assert len(log.primitives) == 1
    assert log.unread == ()


def test_garbage_does_not_crash() -> None:
    """Other lines are ignored; incomplete exec lines are counted."""
    text = "\n".join(
        (
            "hello, world",
            "onednn_verbose,",
            "onednn_verbose,v1,primitive,create:cache_hit,cpu,matmul,x,undef,a,b,c,1x1:1x1,0.01",
            "onednn_verbose,v1,graph,exec,cpu,100002,matmul,a,b,c,d,0.1",
            "onednn_verbose,v1,primitive,exec,cpu,matmul,brg",
            V37[:-3] + "fast",
            V37,
        )
    )
    log = parse_onednn(text)
    assert len(log.primitives) == 1
    assert len(log.unread) == 3


def test_header() -> None:
    """Version, instruction set and runtime come from the info lines."""
    log = parse_onednn(
        "onednn_verbose,v1,info,oneDNN v3.7.1 (commit 8d26)\nonednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2\n"
        "onednn_verbose,v1,info,cpu,isa:AArch64 SVE (128 bits)\n"
    )
    assert (log.version, log.isa) == ("3.7.1", "AArch64 SVE (128 bits)")


def test_precision_of_a_primitive() -> None:
    """Operands stored as bf16 prove bf16; if it is only allowed, the kernel's name must show it."""
    allowed = parse_onednn(V2).primitives[0]
    assert logged_precision(allowed) == BF16_ALLOWED
    assert logged_precision(parse_onednn(V2.replace("attr-fpmath_mode:fpmath_mode_bf16", "")).primitives[0]) == "fp32"
    assert logged_precision(parse_onednn(V2.replace("gemm:acl", "jit:avx512_core")).primitives[0]) == "fp32"
    assert logged_precision(parse_onednn(V2.replace("gemm:acl", "brgconv:avx512_core_amx")).primitives[0]) == "bf16"
    assert logged_precision(parse_onednn(V35).primitives[0]) == "bf16"
    assert logged_precision(parse_onednn(V37.replace("bf16::", "u8::")).primitives[0]) == "int8"
    assert logged_precision(parse_onednn(V37.replace("bf16::", "f64::")).primitives[0]) == "fp64"
    assert logged_precision(parse_onednn(V37.replace("bf16::", "f77::")).primitives[0]) == "unknown"


def test_reference_kernels() -> None:
    """Slow kernels count for products, not for reorders, which use them normally."""
    assert parse_onednn(V2.replace("gemm:acl", "ref:any")).primitives[0].is_reference
    assert not parse_onednn(V2).primitives[0].is_reference
    assert (
        not parse_onednn(
            "onednn_verbose,exec,cpu,reorder,simple:any,undef,src_f32::blocked:ab:f0 dst_f32::blocked:ba:f0,,,4x4,0.1"
        )
        .primitives[0]
        .is_reference
    )


@pytest.mark.parametrize(
    ("kind", "kernel", "on_arm", "on_x86"),
    [
        ("convolution", "gemm:ref", True, False),
        ("inner_product", "gemm:ref", True, False),
        ("matmul", "gemm:jit:f32", True, False),
        ("matmul", "gemm:jit:bf16", True, False),
        ("convolution", "gemm_s8s8s32:ref", True, False),
        ("gemm_api", "", True, False),
        ("convolution", "x64:gemm:jit", False, False),
        ("matmul", "gemm:acl", False, False),
        ("matmul", "jit:bf16", False, False),
        ("convolution", "indirect_gemm:kai", False, False),
        ("matmul", "kai+post_ops_fallback", False, False),
        ("convolution", "brgconv:sve_256", False, False),
        ("matmul", "ref:any", True, True),
        ("deconvolution", "conv:any+ref:any", True, True),
        ("deconvolution", "conv:any+jit:sve_256", False, False),
        ("reorder", "ref:any", False, False),
    ],
)
def test_which_kernels_are_reference_kernels(kind: str, kernel: str, on_arm: bool, on_x86: bool) -> None:
    """oneDNN generates its own gemm on x86 only; on ARM the same names, and its interface, are plain loops."""
    line = (
        f"onednn_verbose,v1,primitive,exec,cpu,{kind},{kernel},undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
        "dst:f32::blocked:ab::f0,attr-scratchpad:user,,128x256:256x128,0.5"
    )
    for architecture, expected in (("aarch64", on_arm), ("x86_64", on_x86), ("", on_x86)):
        (primitive,) = parse_onednn(line, architecture).primitives
        assert primitive.is_reference is expected, architecture


def test_shared_recordings(shared: Path) -> None:
    """Every exec line of every ARM recording is parsed."""
    logs = sorted((shared / "data" / "onednn_verbose").glob("*.log"))
    assert len(logs) >= 9
    for path in logs:
        text = path.read_text()
        log = parse_onednn(text)
        assert log.unread == ()
        assert len(log.primitives) == text.count("exec,cpu") > 0
        assert log.version
        assert "AArch64" in log.isa


def test_shared_recordings_of_amx(shared: Path) -> None:
    """Likewise for 17 products on a CPU with AMX, in two releases; some of them call no oneDNN."""
    logs = sorted((shared / "data" / "onednn_verbose" / "amx").glob("*.log"))
    assert len(logs) == 34
    for path in logs:
        text = path.read_text()
        log = parse_onednn(text)
        assert (len(log.unread), len(log.primitives)) == (0, text.count("exec,cpu")), path.name
        assert "unknown" not in {logged_precision(each) for each in log.primitives if each.is_compute}


@pytest.mark.parametrize("path", recordings.AMX_ATTENTION, ids=lambda path: path.stem)
def test_attention_in_microkernels(path: Path) -> None:
    """Recorded on a CPU with AMX: every line is a product in bf16, and together they do all of attention's FLOPs."""
    text = path.read_text()
    log = parse_onednn(text)
    assert (len(log.unread), len(log.primitives)) == (0, text.count("ukernel,exec"))
    assert {(each.kernel, logged_precision(each), each.is_compute) for each in log.primitives} == {
        ("brgemm", "bf16", True)
    }
    heads, rows, columns = 4, 384, 64
    assert sum(problem_flop(each) or 0 for each in log.primitives) == 2 * 2 * heads * rows * rows * columns


def test_a_microkernel_adds_up_several_products() -> None:
    """As many as ``bs`` says; without it, how much it multiplied is not known."""
    line = (
        "onednn_verbose,v1,ukernel,exec,cpu,brgemm,,undef,src:bf16::blocked:ab::f0 wei:bf16::blocked:ab::f0 "
        "dst:f32::blocked:ab::f0,,bs:3 beta:1,4x16:16x8,0.5"
    )
    assert problem_flop(parse_onednn(line).primitives[0]) == 3 * 2 * 4 * 16 * 8
    assert problem_flop(parse_onednn(line.replace("bs:3 ", "")).primitives[0]) is None


def test_packing_a_matrix_for_a_microkernel_multiplies_nothing() -> None:
    """The line is as src/cpu/x64/ukernel/transform.cpp of oneDNN writes it; none of the recordings has one."""
    line = (
        "onednn_verbose,v1,ukernel,exec,cpu,transform,pack_B,undef,src:bf16::blocked:ab::f0 "
        "dst:bf16::blocked:ab::f0,,,384x64,0.01"
    )
    (primitive,) = parse_onednn(line).primitives
    assert (primitive.kernel, primitive.is_compute) == ("transform pack_B", False)


@pytest.mark.parametrize("path", [*recordings.OWN_RECORDINGS, *recordings.ARM_RECORDINGS], ids=lambda path: path.stem)
def test_own_recordings(path: Path) -> None:
    """Every exec line recorded on x86 and on emulated ARM is parsed, and every product has a precision."""
    found = recordings.load_log(path)
    log = parse_onednn(found.output)
    assert log.unread == ()
    assert len(log.primitives) == found.output.count("exec,cpu")
    # For AVX2 and Neoverse N1, oneDNN has no kernels in bf16, so torch computes what is cast to it.
    has_bf16 = not any(name in path.stem for name in ("neoverse-n1", "-avx2"))
    is_silent = found.mode == "off" or (found.bf16_method in ("autocast", "cast") and not has_bf16)
    assert any(each.is_compute for each in log.primitives) is not is_silent
    # Lines of some microkernels show no types.
    products = [each for each in log.primitives if each.is_compute and each.tensors]
    allowed = {BF16_ALLOWED} if "aarch64" in path.stem else set()
    assert {logged_precision(each) for each in products} <= {"fp32", "bf16"} | allowed


def test_a_product_through_the_blas_interface_is_a_product() -> None:
    """dnnl_sgemm is logged as gemm_api, without an implementation (src/common/gemm.cpp)."""
    line = (
        "onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_s8::blocked:ab:f0 wei_s8::blocked:ab:f0 "
        "dst_s32::blocked:ab:f0,,,128x256:256x64,0.5"
    )
    (primitive,) = parse_onednn(line).primitives
    assert primitive.is_compute
    assert (logged_precision(primitive), problem_flop(primitive)) == ("int8", 2 * 128 * 256 * 64)


def test_a_kind_of_primitive_that_is_not_known_is_a_product() -> None:
    """Only what is known to move or transform data is not."""
    for kind, is_compute in (("invented_tomorrow", True), ("softmax", False)):
        assert parse_onednn(V35.replace("matmul", kind)).primitives[0].is_compute is is_compute


@pytest.mark.parametrize(
    ("kind", "problem", "expected"),
    [
        ("convolution", "mb4_ic32oc64_ih56oh28kh3sh2dh0ph1_iw56ow28kw3sw2dw0pw1", 2 * 4 * 64 * 28 * 28 * 32 * 9),
        ("convolution", "mb1_g32ic32oc32_ih8oh8kh3_iw8ow8kw3", 2 * 32 * 8 * 8 * 9),
        ("deconvolution", "mb1_ic8oc4_ih8oh16kh2_iw8ow16kw2", 2 * 8 * 8 * 8 * 4 * 4),
        ("inner_product", "mb2ic16ih2iw2oc8", 2 * 2 * 16 * 4 * 8),
        ("rnn", "l1t2mb3", None),
    ],
)
def test_the_operations_of_a_problem(kind: str, problem: str, expected: int | None) -> None:
    """Each output, or input of a deconvolution, is multiplied by one filter of its group."""
    line = f"onednn_verbose,v1,primitive,exec,cpu,{kind},x,undef,src:f32::blocked:ab::f0,,,{problem},1"
    (primitive,) = parse_onednn(line).primitives
    assert problem_flop(primitive) == expected


def test_what_mkl_multiplied_is_counted() -> None:
    """By the sizes of GEMM and GEMV; a batch's are behind pointers, and count nothing."""
    text = "\n".join(
        (
            "MKL_VERBOSE SGEMM(T,N,768,384,64,0x1,0x2,64,0x3,64,0x4,0x5,768) 2.00ms CNR:OFF FastMM:1 TID:0  NThr:2",
            "MKL_VERBOSE SGEMM(T,N,768,384,64,0x1,0x2,64,0x3,64,0x4,0x5,768) 3.00ms CNR:OFF FastMM:1 TID:1  NThr:2",
            "MKL_VERBOSE SGEMV(T,16,8,0x1,0x2,16,0x3,1,0x4,0x5,1) 1.00us CNR:OFF FastMM:1 TID:0  NThr:2",
            "MKL_VERBOSE SGEMM_BATCH(0x1,0x2,0x3,0x4) 1.00us CNR:OFF FastMM:1 TID:0  NThr:2",
        )
    )
    calls = {call.function: call for call in parse_mkl(text)}
    assert {name: call.flop for name, call in calls.items()} == {
        "SGEMM": 2 * 2 * 768 * 384 * 64,
        "SGEMV": 2 * 16 * 8,
        "SGEMM_BATCH": 0,
    }
    assert calls["SGEMM"].count == 2
    assert calls["SGEMM"].seconds == pytest.approx(2e-3), "that of the main thread"

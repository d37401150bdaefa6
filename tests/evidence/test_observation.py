"""What the logs of a pass say is parsed without torch, and compared between processes."""

from __future__ import annotations

import pytest
from evidence_samples import conv_line

from modelzoo.evidence.kernel_names import UNKNOWN
from modelzoo.evidence.logs import kernel_digest
from modelzoo.records.evidence import KernelCalls, KernelDigest

CONV = conv_line("jit:avx512_core", "f32", 1.5)
MATMUL = (
    "onednn_verbose,v1,primitive,exec,cpu,matmul,brg_matmul:avx512_core_bf16,undef,"
    "src:bf16::blocked:ab::f0 wei:bf16::blocked:ab::f0 dst:bf16::blocked:ab::f0,,,128x256:256x64,0.5"
)
REORDER = (
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,"
    "src:f32::blocked:ab::f0 dst:bf16::blocked:ab::f0,,,128x256,0.01"
)
SGEMM = "MKL_VERBOSE SGEMM(T,N,768,384,768,0x7ffe,0x1,768) 1.2ms CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:2"


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

"""Operators are matched with oneDNN's primitives by kind, size and order."""

from __future__ import annotations

from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import conv_event, conv_line, gemm_event

from modelzoo.evidence.kernel_names import PASS_EVENT
from modelzoo.evidence.matching import classify, is_gemm, match_primitives
from modelzoo.evidence.observation import Event
from modelzoo.evidence.onednn_log import Primitive, parse_onednn
from modelzoo.frozen import replace
from modelzoo.records.evidence import OperatorClass

_, LINEAR, MATMUL, ATTENTION = OperatorClass


def gemm_line(sizes: str = "4x16:16x8", post_ops: str = "") -> str:
    """oneDNN's line for a matrix product, by default that of ``gemm_event``."""
    tensors = "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0"
    return f"onednn_verbose,v1,primitive,exec,cpu,matmul,brg:x,undef,{tensors},{post_ops},,{sizes},1"


def matched(events: list[Event], *lines: str) -> dict[int, Primitive]:
    """The primitive of each event, all of which are called by nothing."""
    events = [replace(event, parent=-1) for event in events]
    return match_primitives(events, classify(events), parse_onednn("\n".join(lines)).primitives)[0]


def test_only_the_innermost_operator_has_a_class() -> None:
    """Callers dispatch; mm below linear is a Linear without a bias, mm below matmul is a plain product."""
    events = [
        Event(PASS_EVENT, 0.0, -1),
        Event("aten::linear", 0.0, 0),
        Event("aten::matmul", 0.0, 1),
        Event("aten::mm", 1.0, 2),
        Event("aten::matmul", 0.0, 0),
        Event("aten::mm", 1.0, 4),
    ]
    assert classify(events) == [None, None, None, LINEAR, None, MATMUL]


def test_equal_sizes_are_matched_in_order() -> None:
    """Two calls of the same size get their primitives in the order of the log."""
    events = [Event(PASS_EVENT, 0.0, -1), conv_event(1.0), conv_event(1.0)]
    found = matched(events, conv_line("first", "f32", 1.0), conv_line("second", "f32", 1.0))
    assert [found[index].implementation for index in (1, 2)] == ["first", "second"]


def test_a_product_that_adds_belongs_to_addmm() -> None:
    """mm and addmm of the same size may run in different libraries, so mm does not take addmm's primitive."""
    mm, addmm = gemm_event("aten::mm", "float"), gemm_event("aten::addmm", "float")
    assert matched([mm, addmm], gemm_line(post_ops="attr-post-ops:sum")).keys() == {1}
    assert matched([mm, addmm], gemm_line()).keys() == {0}
    assert matched([addmm], gemm_line()).keys() == {0}


def test_an_inner_product_belongs_to_onednns_own_linear() -> None:
    """An addmm of the same size that ran before it in a BLAS does not take its primitive."""
    addmm = gemm_event("aten::addmm", "float")
    packed = Event("mkldnn::_linear_pointwise", 1.0, -1, ((4, 16), (8, 16), (8,)), ("float",) * 3)
    line = gemm_line().replace("matmul", "inner_product").replace("4x16:16x8", "mb4ic16oc8")
    assert matched([addmm, packed], line).keys() == {1}
    assert matched([addmm, packed], line, gemm_line()).keys() == {0, 1}


def test_linear_flattens_leading_dimensions() -> None:
    """A fused Linear has an (out, in) weight and any number of leading dimensions."""
    linear = Event("mkldnn::_linear_pointwise", 1.0, -1, ((2, 3, 16), (8, 16), (8,)))
    assert matched([linear], gemm_line("5x16:16x8"), gemm_line("6x16:16x8"))[0].problem == "6x16:16x8"


def test_quantized_linears_are_told_apart_by_their_weights() -> None:
    """Those come after the scale and the zero point of the input, as (in, out)."""
    events = [
        Event("onednn::qlinear_pointwise", 1.0, -1, ((32, 128), (), (), (128, outputs), (outputs,), (outputs,)))
        for outputs in (64, 8)
    ]
    lines = (gemm_line(sizes).replace("src:f32", "src:u8") for sizes in ("32x128:128x8", "32x128:128x64"))
    found = matched(events, *lines)
    assert [found[index].problem for index in (0, 1)] == ["32x128:128x64", "32x128:128x8"]


def test_a_onednn_operator_takes_the_first_primitive_if_its_size_is_hidden() -> None:
    """Packed weights do not show their size, but the operator did run a primitive."""
    packed = Event("mkldnn::_linear_pointwise", 1.0, -1, ((), ()))
    assert matched([packed], gemm_line()).keys() == {0}
    assert matched([replace(packed, name="aten::mm")], gemm_line()) == {}


def test_transposed_and_one_dimensional_convolutions() -> None:
    """A transposed convolution hides its output channels; a 1-D one shares only batch and channels with the log."""
    shapes = ((1, 8, 8, 8), (8, 4, 3, 3))
    transposed = Event("mkldnn::_convolution_transpose_pointwise", 1.0, -1, shapes)
    assert matched([transposed], conv_line("x", "f32", 1.0)).keys() == {0}
    flat = Event("aten::_slow_conv2d_forward", 1.0, -1, ((1, 8, 64), (8, 8, 3)))
    assert matched([flat], conv_line("x", "f32", 1.0)).keys() == {0}
    assert matched([replace(flat, shapes=((1, 4, 64), (8, 4, 3)))], conv_line("x", "f32", 1.0)) == {}


def test_other_primitives_are_matched_by_name_and_elements() -> None:
    """A ReLU of the same number of elements gets the eltwise primitive; another size or operator does not."""
    tensors = "data:f32::blocked:abcd::f0 diff:undef::undef:::"
    eltwise = f"onednn_verbose,v1,primitive,exec,cpu,eltwise,jit:x,forward_training,{tensors},,alg:relu,1x8x8x8,1"
    relu = Event("aten::relu_", 1.0, -1, ((1, 8, 8, 8),))
    assert matched([relu], eltwise).keys() == {0}
    assert matched([replace(relu, shapes=((2, 8, 8, 8),))], eltwise) == {}
    assert matched([replace(relu, name="aten::softmax")], eltwise) == {}


def test_reorders_are_never_matched() -> None:
    """They are attributed separately, and do not count as unmatched."""
    reorder = (
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,,,1x8x8x8,1"
    )
    events = [Event(PASS_EVENT, 0.0, -1), conv_event(1.0)]
    assert match_primitives(events, classify(events), parse_onednn(reorder).primitives) == ({}, [])


@pytest.mark.parametrize("path", [*recordings.OWN_RECORDINGS, *recordings.ARM_RECORDINGS], ids=lambda path: path.stem)
def test_recorded_operators_get_a_primitive(path: Path) -> None:
    """Every recorded oneDNN convolution has its primitive; only attention leaves matrix products unmatched."""
    recording = recordings.load_recording(path)
    audit = recording.audit
    classes = classify(audit.events)
    matches, unmatched = match_primitives(audit.events, classes, audit.log.primitives)
    for index, event in enumerate(audit.events):
        if event.name == "aten::mkldnn_convolution":
            assert matches[index].kind == "convolution"
    if recording.mode not in ("compile", "frozen"):  # these call oneDNN without an operator
        assert all(is_gemm(primitive) for primitive in unmatched)
        assert not unmatched or ATTENTION in classes

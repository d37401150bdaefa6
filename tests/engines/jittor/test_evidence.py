"""What proves Jittor's precision: the log of Debian's oneDNN 2.6.3, recorded on x86-64, and a canary."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from engines.jittor import fake_jittor

from modelzoo.engines.jittor import model
from modelzoo.engines.protocol import Unavailable
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import LogSource, OperatorClass, ProofVerdict
from modelzoo.records.profile import Flops

# The first three primitives of a pass of ResNet50.
RECORDED = """\
onednn_verbose,info,oneDNN v2.6.3 (commit N/A)
onednn_verbose,info,cpu,runtime:OpenMP,nthr:2
onednn_verbose,info,cpu,isa:Intel AVX-512 with Intel DL Boost and bfloat16 support
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32::blocked:acdb:f0,,,1x512x7x7,0.0806
onednn_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_f32:p:blocked:Acdb48a:f0,,,2048x512x1x1,0.03
onednn_verbose,exec,cpu,convolution,brgconv_1x1:avx512_core,forward_inference,src_f32::blocked:acdb:f0 \
wei_f32:p:blocked:Acdb48a:f0 bia_undef::undef::f0 dst_f32::blocked:acdb:f0,,alg:convolution_direct,\
mb1_ic512oc2048_ih7oh7kh1sh1dh0ph0_iw7ow7kw1sw1dw0pw0,0.3997
"""
COUNTED = Flops(103_000_000, 0, {"aten::convolution": 102_760_448, "aten::addmm": 239_552})
"""What torch counts in a pass; the convolution is in the log."""


@pytest.fixture
def verbose(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What oneDNN's verbose mode was set to, one after another."""
    calls: list[int] = []
    monkeypatch.setattr(model, "onednn", lambda: SimpleNamespace(dnnl_set_verbose=calls.append))
    monkeypatch.setattr(model, "onednn_version", lambda: "2.6.3")
    return calls


def run() -> None:
    """A pass of a model; native libraries do not know Python's streams."""
    os.write(1, RECORDED.encode())


def test_the_kernels_of_a_pass_are_known(verbose: list[int]) -> None:
    """By the log alone, without the time that they took."""
    found = model.log_kernels(run)
    assert not isinstance(found, Unavailable)
    kernels = [(each.kernel, each.precision, each.count) for each in found.kernels]
    assert kernels == [("oneDNN convolution brgconv_1x1:avx512_core", "fp32", 1)]
    assert verbose == [1, 0]


def test_fp32_is_proven_by_log_and_canary(verbose: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrix products that are not in the log are mentioned."""
    install_operators(monkeypatch)
    found = model.audit(run, 2, model.run_canary(), COUNTED)
    assert not isinstance(found, Unavailable)
    assert (found.verdict, found.iterations, found.log_source) == (ProofVerdict.FP32, 2, LogSource.RUNTIME_SWITCH)
    assert [each.operator_class for each in found.classes] == [OperatorClass.CONV]
    assert (found.onednn_version, found.reference_share) == ("2.6.3", 0.0)
    assert any("dnnl_sgemm" in problem for problem in found.problems)


def test_without_a_log_nothing_is_proven(verbose: list[int]) -> None:
    """Jittor computes without oneDNN, or verbose mode has no effect; the mode is switched off in any case."""
    for found in (model.log_kernels(lambda: None), model.audit(lambda: None, 1, None, COUNTED)):
        assert isinstance(found, Unavailable)
        assert "Jittor's precision cannot be proven" in found.reason
    with pytest.raises(ZeroDivisionError):
        model.audit(lambda: 1 / 0, 1, None, COUNTED)
    assert verbose == [1, 0] * 3


def test_the_canary_shows_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """And operators that round their operands to bf16 are seen."""
    install_operators(monkeypatch)
    assert model.run_canary().verdict("fp32") is CanaryVerdict.FP32
    install_operators(monkeypatch, torch.bfloat16)
    found = model.run_canary()
    assert [check.operator for check in found.operators] == ["matmul", "linear", "conv", "pointwise"]
    assert found.verdict("fp32") is CanaryVerdict.NOT_FP32


def install_operators(monkeypatch: pytest.MonkeyPatch, dtype: Any = torch.float32) -> None:
    """Give the package that stands for Jittor the operators of torch, with operands of ``dtype``."""
    package = fake_jittor.install(monkeypatch)

    def computed(function: Any) -> Any:
        def call(*operands: Any, **options: Any) -> Any:
            tensors = [torch.from_numpy(np.asarray(each.numpy())).to(dtype) for each in operands]
            return fake_jittor.Var(lambda: function(*tensors, **options).float().numpy())

        return call

    functional = torch.nn.functional
    operators = SimpleNamespace(linear=computed(functional.linear), conv2d=computed(functional.conv2d))
    vars(package).update(matmul=computed(torch.matmul), nn=operators)

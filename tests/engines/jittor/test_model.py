"""Jittor's model, on a package that stands for Jittor: its state, its calls, and what proves its precision."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from engines.jittor import fake_jittor
from exportable_workloads import CLASSIFIER, resolved, source_of
from safetensors.numpy import save_file

from modelzoo.engines.jittor import model as jittor_model
from modelzoo.engines.jittor.model import JittorModel
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import LogSource, OperatorClass, ProofVerdict
from modelzoo.records.profile import Flops
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs

INPUTS = Inputs((np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),), ("first", "second"))
MEANS = [5.5, 17.5]


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
def model(monkeypatch: pytest.MonkeyPatch) -> JittorModel:
    """A model that computes the mean of each picture."""
    fake_jittor.install(monkeypatch)
    return JittorModel("toy", ResolvedSetting(engine="jittor"), fake_jittor.ResNet(), INPUTS, COUNTED)


def test_a_call_returns_when_the_output_exists(model: JittorModel) -> None:
    """Jittor computes nothing before it is asked to, nor copies the input; the first call is part of loading."""
    assert (model.compilation.first_answer, fake_jittor.Var.pending) == (model.compilation.seconds, [])
    args = model.prepare(INPUTS.args)
    assert [arg.is_computed for arg in args] == [True]
    assert model.call(*args).is_computed
    assert [each.tolist() for each in model.outputs(args).outputs] == [MEANS]
    assert model.predict(*INPUTS.args).tolist() == MEANS


@pytest.fixture
def verbose(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What oneDNN's verbose mode was set to, one after another."""
    calls: list[int] = []
    monkeypatch.setattr(jittor_model, "onednn", lambda: SimpleNamespace(dnnl_set_verbose=calls.append))
    monkeypatch.setattr(jittor_model, "onednn_version", lambda: "2.6.3")
    return calls


def run(*args: object) -> None:
    """A pass of a model; native libraries do not know Python's streams."""
    os.write(1, RECORDED.encode())


def test_fp32_is_proven_by_log_and_canary(
    model: JittorModel, verbose: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Matrix products that are not in the log are mentioned; kernels are known by the log alone."""
    kernels = [(each.kernel, each.precision, each.count) for each in jittor_model.log_kernels(run).kernels]
    assert (kernels, verbose) == ([("oneDNN convolution brgconv_1x1:avx512_core", "fp32", 1)], [1, 0])
    install_operators(monkeypatch)
    monkeypatch.setattr(model, "call", run)
    found = model.audit((), canary=jittor_model.run_canary())
    assert (found.verdict, found.iterations, found.log_source) == (ProofVerdict.FP32, 1, LogSource.RUNTIME_SWITCH)
    assert [each.operator_class for each in found.classes] == [OperatorClass.CONV]
    assert (found.onednn_version, found.reference_share) == ("2.6.3", 0.0)
    assert any("dnnl_sgemm" in problem for problem in found.problems)
    assert model.flops(()) == COUNTED
    profile = model.profile((), evidence=found)
    assert {(each.name, each.count) for each in profile.operators} >= {("onednn::convolution", 2)}


def test_without_a_log_nothing_is_proven(
    model: JittorModel, verbose: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jittor computes without oneDNN, or verbose mode has no effect; the mode is switched off in any case."""
    monkeypatch.setattr(model, "call", lambda: None)
    for found in (jittor_model.log_kernels(lambda: None), model.audit((), canary=None)):
        assert "Jittor's precision cannot be verified" in found.reason
    monkeypatch.setattr(model, "call", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.audit((), canary=None)
    assert verbose == [1, 0] * 3


@pytest.mark.parametrize(
    ("dtype", "verdict"), [(torch.float32, CanaryVerdict.FP32), (torch.bfloat16, CanaryVerdict.NOT_FP32)]
)
def test_the_canary_shows_fp32(dtype: Any, verdict: CanaryVerdict, monkeypatch: pytest.MonkeyPatch) -> None:
    """And operators that round their operands to bf16 are seen."""
    install_operators(monkeypatch, dtype)
    found = jittor_model.run_canary()
    assert [check.operator for check in found.operators] == ["matmul", "linear", "conv", "pointwise"]
    assert found.verdict("fp32") is verdict


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


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    """jittor.models has no detectors and no BERT."""
    setting = resolved("jittor")
    with pytest.raises(UsageError) as caught:
        jittor_model.export(source_of(CLASSIFIER, tmp_path, setting))
    assert str(caught.value) == (
        "classifier cannot run on Jittor: jittor.models holds classification networks only, and of these the suite "
        "runs torchvision's ResNet50; use another --engine"
    )


def test_the_exported_state_is_loaded_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jittor itself would only log one that does not fit, and run with the weights that it drew at random."""
    fake_jittor.install(monkeypatch)
    state = {"conv1.weight": np.ones((2, 3), np.float32), "fc.bias": np.ones(10, np.float32)}
    with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
        jittor_model.load(tmp_path)
    save_file(state, str(tmp_path / jittor_model.STATE))
    found = jittor_model.load(tmp_path)
    assert not found.is_training
    assert all(np.array_equal(found.state[name], array) for name, array in state.items())
    save_file({**state, "conv1.weight": np.ones((3, 2))}, str(tmp_path / jittor_model.STATE))
    problem = r"1 of another shape \(first: conv1.weight is \(3, 2\), the model needs \(2, 3\)\)"
    with pytest.raises(WeightsError, match=f"does not fit Jittor's ResNet50: {problem}; use another --engine"):
        jittor_model.load(tmp_path)

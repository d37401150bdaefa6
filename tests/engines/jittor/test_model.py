"""Jittor's model, on a package that stands for Jittor."""

from __future__ import annotations

import numpy as np
import pytest
from engines.jittor import fake_jittor

from modelzoo.engines.jittor.model import JittorModel
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import UsageError
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload

WORKLOAD = Workload("toy", "a toy", "pictures", build=lambda options: None, inputs=lambda request: INPUTS)
INPUTS = Inputs((np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2),), ("first", "second"))
MEANS = [5.5, 17.5]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> JittorModel:
    """A model that computes the mean of each picture."""
    fake_jittor.install(monkeypatch)
    return JittorModel(WORKLOAD, ResolvedSetting(engine="jittor"), fake_jittor.ResNet(), INPUTS)


def test_a_call_returns_when_the_output_exists(model: JittorModel) -> None:
    """Jittor computes nothing before it is asked to; so does a copy of the input, which is not part of a call."""
    args = model.prepare(INPUTS.args)
    assert [arg.is_computed for arg in args] == [True]
    output = model.call(*args)
    assert output.is_computed
    assert output.numpy().tolist() == MEANS


def test_the_first_call_is_part_of_compiling(model: JittorModel) -> None:
    """It has been made when the model is loaded, and its time is known."""
    assert model.compile_seconds > 0
    assert fake_jittor.Var.pending == []


def test_outputs_and_predictions_are_arrays(model: JittorModel) -> None:
    """For the comparison with torch."""
    assert [each.tolist() for each in model.outputs(model.prepare(INPUTS.args)).outputs] == [MEANS]
    assert model.predict(*INPUTS.args).tolist() == MEANS


def test_what_it_cannot_tell_has_a_reason(model: JittorModel) -> None:
    """Neither operations nor a profile."""
    assert model.counts((), ()) == ()
    for found in (model.flops(()), model.profile((), trace=None, evidence=None)):
        assert isinstance(found, Unavailable)
        assert found.reason


def test_an_error_of_jittor_is_one_line(model: JittorModel) -> None:
    """Its errors have many lines; one of them gives the reason."""
    with (
        pytest.raises(UsageError, match=r"^toy cannot run with fp32 jittor: wrong shape; run it with --engine torch$"),
        model.explained_errors(),
    ):
        raise RuntimeError("Execute fused operator failed\n[Reason]: wrong shape\n")

"""Loading both models through an engine that is not torch, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from engines.fake_engine import FakeEngine, FakeSession
from toy_workloads import numpy_classifier

from modelzoo.errors import EnvironmentProblem, InputError
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.run import Prepared
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import Setting
from modelzoo.validity.predictors import bound_task, validate
from modelzoo.workload import Inputs, Workload

WEIGHTS = Weights(WeightsKind.PATH, "toy", "toy.npz", "0" * 64)


def prepared(weights: Weights = WEIGHTS, **changes: Any) -> Prepared:
    """bf16 with these weights."""
    return Prepared(FakeEngine().resolve(Setting(precision="bf16", **changes), batch=2, threads=1), weights)


@pytest.fixture
def work(tmp_path: Path) -> Workload:
    """A numpy classifier."""
    return numpy_classifier(tmp_path)


def test_without_fp32_there_is_no_reference(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary that shows bf16 in the reference ends the judgement before anything is compared."""
    rounded = Canary((OperatorCheck("matmul", 2e-3, CanaryLevel.BF16),))
    monkeypatch.setattr(FakeSession, "canary", lambda self: rounded)
    weights = replace(WEIGHTS, path=str(work.directory / "weights.npz"))
    with pytest.raises(EnvironmentProblem, match=r"no fp32 reference .* matmul bf16 \(2.0e-03\)"):
        validate(FakeEngine(), work, prepared(weights), Inputs((), ()), ValidityRequest())


def test_data_are_read_before_models_are_loaded(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them shows at once."""
    monkeypatch.setattr(FakeSession, "load", lambda *args: pytest.fail("a model was loaded"))
    request = ValidityRequest(data=str(work.directory / "none"))
    with pytest.raises(InputError, match="no such file or directory"):
        validate(FakeEngine(), work, prepared(), Inputs((), ()), request)


def test_the_request_is_completed_from_setting_and_weights(work: Workload) -> None:
    """Batch, seed, and whether the weights are random, the user's, or a checkpoint directory; a judge gets options."""
    requested: list[Mapping[str, Any]] = []
    declared = replace(work, judge=lambda options: requested.append(options) or work.judge(options))

    def completed(weights: Weights, **setting: Any) -> ValidityRequest:
        return bound_task(declared, prepared(weights, **setting), ValidityRequest(limit=3)).context.request

    found = completed(WEIGHTS, seed=5, options={"size": 3})
    assert (found, requested) == (ValidityRequest(limit=3, seed=5, batch=2, own_weights=True), [{"size": 3}])
    random = completed(replace(WEIGHTS, kind=WeightsKind.RANDOM))
    assert (random.weights_are_random, random.own_weights, random.model_path) == (True, False, None)
    directory = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, path=str(work.directory))
    assert completed(directory).model_path == str(work.directory)

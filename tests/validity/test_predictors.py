"""Loading both models through an engine that is not torch, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engines.fake_engine import FakeEngine, FakeSession
from validity import toys

from modelzoo.errors import EnvironmentProblem, InputError
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.run import Prepared
from modelzoo.records.validity import ValidityRequest
from modelzoo.records.workload import Weights, WeightsKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.validity import Classification
from modelzoo.validity.predictors import bound_task, validate
from modelzoo.workload import Inputs, Workload

# torch's tensors trigger it in numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
WEIGHTS = Weights(WeightsKind.PATH, "toy", "toy.npz", "0" * 64)


def forward(pictures: Any, *, weight: Any) -> Any:
    """Logits of a linear model."""
    return pictures.reshape(len(pictures), -1) @ weight.T


def workload(folder: Path, requested: list[Mapping[str, Any]]) -> Workload:
    """A numpy classifier on 6 pictures; ``requested`` collects the options that its judge is called with."""
    declaration, _, _, request = toys.classification(folder / "pictures", 6)
    assert request.data is not None

    def judge(options: Mapping[str, Any]) -> Classification:
        requested.append(options)
        return declaration

    return Workload("toy", "a toy", "pictures", lambda options: forward, lambda request: Inputs((), ()), judge=judge)


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    """A trained linear model in a file of the user's."""
    path = tmp_path / "toy.npz"
    np.savez(path, weight=np.random.default_rng(0).normal(size=(toys.CLASSES, 768)).astype("float32") / 100)
    return replace(WEIGHTS, path=str(path))


def resolved(**changes: Any) -> ResolvedSetting:
    return FakeEngine().resolve(Setting(precision="bf16", **changes), batch=2, threads=1)


def test_without_fp32_there_is_no_reference(tmp_path: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    """A canary that shows bf16 in the reference ends the judgement before anything is compared."""
    rounded = Canary((OperatorCheck("matmul", 2e-3, CanaryLevel.BF16),))
    monkeypatch.setattr(FakeSession, "canary", lambda self: rounded)
    with pytest.raises(EnvironmentProblem, match=r"no fp32 reference .* matmul bf16 \(2.0e-03\)"):
        validate(FakeEngine(), workload(tmp_path, []), Prepared(resolved(), weights), Inputs((), ()), ValidityRequest())


def test_data_are_read_before_models_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with them shows at once."""
    monkeypatch.setattr(FakeSession, "load", lambda *args: pytest.fail("a model was loaded"))
    request = ValidityRequest(data=str(tmp_path / "none"))
    with pytest.raises(InputError, match="no such file or directory"):
        validate(FakeEngine(), workload(tmp_path, []), Prepared(resolved(), WEIGHTS), Inputs((), ()), request)


def test_the_request_is_completed_from_setting_and_weights(tmp_path: Path) -> None:
    """Batch, seed, and whether the weights are random, the user's, or a checkpoint directory; options go to the judge."""
    requested: list[Mapping[str, Any]] = []
    work = workload(tmp_path, requested)

    def completed(weights: Weights, **setting: Any) -> ValidityRequest:
        return bound_task(work, Prepared(resolved(**setting), weights), ValidityRequest(limit=3)).context.request

    assert completed(WEIGHTS, seed=5, options={"size": 3}) == ValidityRequest(
        limit=3, seed=5, batch=2, own_weights=True
    )
    assert requested == [{"size": 3}]
    random = completed(replace(WEIGHTS, kind=WeightsKind.RANDOM))
    assert (random.weights_are_random, random.own_weights, random.model_path) == (True, False, None)
    directory = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, path=str(tmp_path))
    assert completed(directory).model_path == str(tmp_path)

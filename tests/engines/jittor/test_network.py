"""What may run on Jittor, and the comparison of its state with the exported one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engines.jittor import fake_jittor
from exportable_workloads import CLASSIFIER, resolved, source_of
from safetensors.numpy import save_file

from modelzoo.engines.jittor import model as network
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError


def test_other_architectures_are_refused(tmp_path: Path) -> None:
    """jittor.models has no detectors and no BERT; another residual network does not fit, see below."""
    setting = resolved("jittor")
    with pytest.raises(UsageError) as caught:
        network.export(source_of(CLASSIFIER, tmp_path, setting))
    assert str(caught.value) == (
        "classifier cannot run on Jittor: jittor.models holds classification networks only, and of these the suite "
        "runs torchvision's ResNet50; use another --engine"
    )


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """The state of the network of the package that stands for Jittor."""
    fake_jittor.install(monkeypatch)
    return {"conv1.weight": np.ones((2, 3), np.float32), "fc.bias": np.ones(10, np.float32)}


def test_the_exported_state_is_loaded(state: dict[str, np.ndarray], tmp_path: Path) -> None:
    """Into a network with as many classes, in eval mode."""
    save_file(state, str(tmp_path / network.STATE))
    found = network.load(tmp_path)
    assert not found.is_training
    assert all(np.array_equal(found.state[name], array) for name, array in state.items())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"conv1.weight": None}, "1 tensors missing (first: conv1.weight)"),
        ({"extra": np.ones(1)}, "1 unknown (first: extra)"),
        (
            {"conv1.weight": np.ones((3, 2))},
            "1 of another shape (first: conv1.weight is (3, 2), the model needs (2, 3))",
        ),
    ],
)
def test_a_state_that_does_not_fit_is_an_error(
    changes: dict[str, np.ndarray | None], reason: str, state: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """Jittor itself would only log it and run with the weights that it drew at random."""
    changed = {name: array for name, array in {**state, **changes}.items() if array is not None}
    save_file(changed, str(tmp_path / network.STATE))
    with pytest.raises(WeightsError) as caught:
        network.load(tmp_path)
    assert f"does not fit Jittor's ResNet50: {reason}" in str(caught.value)


def test_an_export_that_is_gone_is_an_error(state: dict[str, np.ndarray], tmp_path: Path) -> None:
    """The cache may be cleared while a call runs."""
    with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
        network.load(tmp_path)

"""A package that stands for Jittor: lazy arrays that are computed when everything is synchronized."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest


class Var:
    """An array, or what will be one."""

    pending: ClassVar[list[Var]] = []

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute, self.value = compute, None
        Var.pending.append(self)

    def synchronize(self) -> None:
        if self.value is None:
            self.value = np.asarray(self._compute())

    @property
    def is_computed(self) -> bool:
        return self.value is not None

    def numpy(self) -> Any:
        self.synchronize()
        return self.value


class ResNet:
    """Has the state of a model with two tensors, and computes the mean of each picture."""

    def __init__(self, num_classes: int = 1000) -> None:
        self.state = {"conv1.weight": np.zeros((2, 3)), "fc.bias": np.zeros(num_classes)}
        self.is_training = True

    def state_dict(self) -> dict[str, Any]:
        return self.state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state = state

    def eval(self) -> None:
        self.is_training = False

    def __call__(self, pictures: Var) -> Var:
        return Var(lambda: pictures.numpy().mean((1, 2, 3)))


@contextmanager
def flag_scope(**flags: int) -> Iterator[None]:
    yield


def install(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make ``import jittor`` find the package until the test ends."""
    package, models = ModuleType("jittor"), ModuleType("jittor.models")
    contents = {"models": models, "flag_scope": flag_scope}
    vars(package).update(contents)
    vars(package)["array"] = lambda value: Var(lambda: value)
    vars(package)["sync_all"] = _sync_all
    vars(models)["resnet50"] = ResNet
    monkeypatch.setattr(Var, "pending", [])
    monkeypatch.setitem(sys.modules, "jittor", package)
    monkeypatch.setitem(sys.modules, "jittor.models", models)
    return package


def _sync_all(device_sync: bool = False) -> None:
    assert device_sync
    while Var.pending:
        Var.pending.pop().synchronize()

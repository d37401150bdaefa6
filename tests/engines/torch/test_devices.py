"""Devices are found, checked and selected."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from modelzoo.engines.torch import devices
from modelzoo.errors import EnvironmentProblem


def test_the_cpu_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no module, and nothing is imported for it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert devices.select_device("cpu") is None


def _torch(monkeypatch: pytest.MonkeyPatch, **devices: Any) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="9.9", **devices))


def _accelerator(count: int = 2, available: bool = True) -> Any:
    chosen: list[int] = []
    return SimpleNamespace(
        Event=object,
        synchronize=lambda: None,
        is_available=lambda: available,
        device_count=lambda: count,
        set_device=chosen.append,
        chosen=chosen,
    )


@pytest.mark.parametrize("name", ["cuda", "npu"])
def test_any_module_with_events_is_a_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list of devices is kept: torch has the module or not."""
    accelerator = _accelerator()
    _torch(monkeypatch, **{name: accelerator})
    assert devices.device_module(name) is accelerator


def test_a_device_with_an_index_is_made_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and synchronization then refer to that device; checking alone does not select it."""
    accelerator = _accelerator()
    _torch(monkeypatch, cuda=accelerator)
    devices.device_module("cuda:1")
    assert accelerator.chosen == []
    devices.select_device("cuda:1")
    assert accelerator.chosen == [1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda:2", "this machine has 2 cuda devices"),
        ("cuda:x", "this machine has 2 cuda devices"),
        ("npu", "no npu device is available here"),
        ("tpu", "has no device 'tpu'"),
        ("", "has no device ''"),
        ("nn", "has no device 'nn'"),
        ("cpu:1", "use --device cpu"),
    ],
)
def test_a_missing_device_is_an_error(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reason has a message of its own."""
    _torch(monkeypatch, cuda=_accelerator(), npu=_accelerator(available=False), nn=SimpleNamespace())
    with pytest.raises(EnvironmentProblem, match=message):
        devices.device_module(name)

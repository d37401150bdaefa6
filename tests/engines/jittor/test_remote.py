"""Predictions of another process, here a Python program that stands for Jittor's."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from places import ROOT

from modelzoo.engines.jittor import environment, remote
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import WorkerError
from modelzoo.setting import ResolvedSetting


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[remote.RemoteModel]:
    """Twice the input, plus the number of threads that the process was given."""
    monkeypatch.setattr(environment, "interpreter", lambda: sys.executable)
    monkeypatch.setattr(remote, "SERVER", "engines.jittor.fake_server")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    found = remote.RemoteModel("resnet50", ResolvedSetting(threads=3), Path("export"))
    yield found
    found.close()


def test_tensors_go_there_and_back(model: remote.RemoteModel) -> None:
    """Batch after batch, to one process."""
    for value in (1.0, 4.0):
        found = model.predict(torch.full((3, 2), value).t())
        assert found.dtype == torch.float32
        assert found.tolist() == [[2 * value + 3] * 3] * 2


def test_a_process_that_dies_is_explained(model: remote.RemoteModel) -> None:
    """By its exit code and its last line."""
    with pytest.raises(WorkerError, match=r"^Jittor's process ended with code 1: no memory left$"):
        model.predict(torch.tensor([float("nan")]))


def test_it_only_predicts(model: remote.RemoteModel) -> None:
    """What the process runs is shown by the measuring workers."""
    found = (model.outputs(()), model.kernels(()), model.audit((), canary=None), model.profile((), evidence=None))
    assert set(found) == {remote.ELSEWHERE}
    assert isinstance(model.flops(()), Unavailable)

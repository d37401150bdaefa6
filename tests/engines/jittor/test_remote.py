"""Predictions of another process, here a Python program that stands for Jittor's."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from places import ROOT

from modelzoo.engines.jittor import environment, remote
from modelzoo.engines.jittor.remote import read_array, write_array
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import WorkerError
from modelzoo.setting import ResolvedSetting


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[remote.RemoteModel]:
    """Twice the input, plus the number of threads that the process was given."""
    monkeypatch.setattr(environment, "interpreter", lambda: sys.executable)
    monkeypatch.setattr(remote, "SERVER", "engines.jittor.fake_server")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]))
    found = remote.RemoteModel(Path("export"), ResolvedSetting(threads=3))
    yield found
    found.close()


def test_tensors_go_there_and_back(model: remote.RemoteModel) -> None:
    """Batch after batch, to one process."""
    for value in (1.0, 4.0):
        found = model.predict(torch.full((2, 3), value))
        assert found.dtype == torch.float32
        assert found.tolist() == [[2 * value + 3] * 3] * 2


def test_a_process_that_dies_is_explained(model: remote.RemoteModel) -> None:
    """By its exit code and its last line."""
    with pytest.raises(WorkerError, match=r"^Jittor's process ended with code 1: no memory left$"):
        model.predict(torch.tensor([float("nan")]))


def test_it_only_predicts(model: remote.RemoteModel) -> None:
    """What the process runs is shown by the measuring workers."""
    assert (model.compilation, model.module, model.counts((), ())) == (None, None, ())
    found = (
        model.outputs(()),
        model.kernels(()),
        model.audit((), passes=1, canary=None),
        model.flops(()),
        model.profile((), evidence=None),
    )
    assert all(isinstance(each, Unavailable) and each.reason for each in found)


def test_arrays_arrive_as_they_were_sent() -> None:
    """Values, shape and type, one after another, until the pipe is closed."""
    sent = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7), np.zeros((0, 3))]
    stream = io.BytesIO()
    for each in sent:
        write_array(stream, each)
    stream.seek(0)
    for each in sent:
        found = read_array(stream)
        assert found is not None
        assert (found.dtype, found.shape) == (each.dtype, each.shape)
        assert np.array_equal(found, each)
    assert read_array(stream) is None


@pytest.mark.parametrize("length", [3, 8, 20])
def test_a_pipe_that_is_closed_within_an_array_is_an_error(length: int) -> None:
    """The process at the other end has died."""
    stream = io.BytesIO()
    write_array(stream, np.zeros(5))
    with pytest.raises(EOFError):
        read_array(io.BytesIO(stream.getvalue()[:length]))

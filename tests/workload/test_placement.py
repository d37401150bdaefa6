"""Weights end in private anonymous memory, however they were loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import OPTIONS, TOY

from modelzoo.frozen import replace
from modelzoo.workload import weights


def anonymous_and_private(tensor: Any) -> bool:
    """Whether the kernel lists the tensor's memory as private and without a file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, _, end = line.split()[0].partition("-")
        if int(start, 16) <= tensor.data_ptr() < int(end, 16):
            _, permissions, _, _, inode, *_ = line.split()
            return permissions == "rw-p" and inode == "0"
    raise AssertionError("the tensor lies nowhere")


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    """A layer whose weight is mapped from a file."""
    layer = torch.nn.Linear(512, 512)
    (tmp_path / "weight").write_bytes(layer.weight.detach().numpy().tobytes())
    layer.weight.data = torch.from_file(str(tmp_path / "weight"), shared=False, size=512 * 512).reshape(512, 512).t()
    assert not anonymous_and_private(layer.weight)
    return layer


def test_loaded_weights_lie_in_private_anonymous_memory(mapped: Any, tmp_path: Path) -> None:
    """Random weights from the cache, a file of the user's, and what a workload's own function loads.

    Of the latter, values, strides and the parameter itself stay.
    """
    before, values = mapped.weight, mapped.weight.detach().clone()
    options = {**OPTIONS, "width": 4096}
    random = weights.resolve_weights(TOY, options, "random", 0)
    torch.save(weights.load_model(TOY, options, random).module.state_dict(), tmp_path / "own.pth")
    own = weights.resolve_weights(TOY, options, str(tmp_path / "own.pth"), 0)
    for work, found in ((TOY, random), (TOY, own), (replace(TOY, load=lambda options, path: mapped), own)):
        model = weights.load_model(work, options, found).module
        assert all(map(anonymous_and_private, model.parameters()))
    assert mapped.weight is before
    assert mapped.weight.equal(values)
    assert mapped.weight.stride() == (1, 512)

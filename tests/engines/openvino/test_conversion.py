"""Torch modules in OpenVINO's format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import DETECTOR, resolved, source_of

from modelzoo.engines.export.source import PLAIN
from modelzoo.engines.openvino import MODEL, write_openvino
from modelzoo.errors import UsageError
from modelzoo.workload import Inputs, Workload

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")

SETTING = resolved("openvino")


class Convolved(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """One layer, and whatever ``last`` does."""

    def __init__(self, last: Any) -> None:
        super().__init__()
        self.layer, self.last = torch.nn.Linear(4, 4), last

    def forward(self, rows: Any, other: Any) -> Any:
        return self.last(self.layer(rows), other)


def workload(last: Any) -> Workload:
    return Workload(
        name="small",
        title="a small network",
        unit="rows",
        build=lambda options: Convolved(last),
        inputs=lambda request: Inputs((torch.ones(2, 4), torch.ones(2, 4)), ("row", "row")),
    )


def test_a_detector_has_its_heads_behind_its_outputs(tmp_path: Path) -> None:
    """In one file, whose constants are fp32."""
    write_openvino(source_of(DETECTOR, tmp_path, SETTING), tmp_path)
    model = openvino.Core().read_model(tmp_path / MODEL)
    assert (len(model.inputs), len(model.outputs)) == (2, 2 * 3 + 1)
    types = {str(each.get_element_type()) for each in model.get_ops() if each.get_type_name() == "Constant"}
    assert types.isdisjoint({str(openvino.Type.f16), str(openvino.Type.bf16)})


def test_an_input_that_does_not_matter_stays(tmp_path: Path) -> None:
    """Inputs are passed by number."""
    source = source_of(workload(lambda rows, other: rows), tmp_path, SETTING)
    write_openvino(source, tmp_path)
    assert len(openvino.Core().read_model(tmp_path / MODEL).inputs) == 2


def test_a_scripted_function_is_converted(tmp_path: Path) -> None:
    """Parts of torchvision's detectors are scripted; the types of inputs must be known all the same."""

    @torch.jit.script
    def grow(rows: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            rows = rows + 1
        return rows

    source = source_of(workload(lambda rows, other: grow(rows, 3) - other), tmp_path, SETTING)
    write_openvino(source, tmp_path)
    compiled = openvino.Core().compile_model(tmp_path / MODEL, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled([each.numpy() for each in source.flat_inputs])[0]
    torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(source.expected[1][PLAIN][0]))


def test_an_operator_without_a_counterpart_is_named(tmp_path: Path) -> None:
    """In one line, with the way out."""
    source = source_of(workload(lambda rows, other: torch.linalg.eigvalsh(rows[:, :2])), tmp_path, SETTING)
    with pytest.raises(UsageError, match=r"^small cannot be exported for openvino: .*linalg.*--engine torch$"):
        write_openvino(source, tmp_path)

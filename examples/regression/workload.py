"""A workload with a task of its own: a network that predicts a number, judged by how often it is close enough.

    modelzoo validate examples/regression --weights model.safetensors --data rows.csv

``rows.csv`` has a header, a row for each item, and the right number in the last column.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelzoo.errors import InputError
from modelzoo.validity import PreparedItem, ScoredTask, ValidityRequest, sampled
from modelzoo.workload import InputRequest, Inputs, Workload

FEATURES = 8
CLOSE = 0.1
"""A prediction is close enough within this distance of the right number."""

Row = tuple[float, ...]


def build(options: Mapping[str, Any]) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))


def inputs(request: InputRequest) -> Inputs:
    import torch

    rows = torch.randn(request.batch, FEATURES, generator=torch.Generator().manual_seed(request.seed))
    return Inputs((rows,), tuple(f"row {number}" for number in range(request.batch)))


def read_rows(path: Path | None) -> list[Row]:
    """The rows of a CSV file; without one, a few that are made up."""
    if path is None:
        return [tuple((number * column % 7) / 7 for column in range(1, FEATURES + 2)) for number in range(8)]
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [tuple(map(float, row)) for row in list(csv.reader(file))[1:]]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if not rows or any(len(row) != FEATURES + 1 for row in rows):
        raise InputError(f"{path} must have rows of {FEATURES + 1} numbers, the right one last")
    return rows


class RegressionTask(ScoredTask):
    """Whether each prediction is close enough."""

    name, metric, item_name = "regression", "close_enough", "row"

    def read(self, request: ValidityRequest) -> Sequence[Row]:
        rows = read_rows(Path(request.data) if request.data else None)
        return sampled(rows, request.limit, request.seed)

    def prepare(self, item: Row) -> PreparedItem:
        return PreparedItem([item[:-1]])

    def arguments(self, rows: Sequence[Row]) -> tuple[Any, ...]:
        import torch

        return (torch.tensor(rows),)

    def predictions(self, output: Any, rows: Sequence[Row]) -> Sequence[float]:
        numbers: list[float] = output.float().flatten().tolist()
        return numbers

    def score(self, item: Row, prediction: float) -> float:
        return float(abs(prediction - item[-1]) <= CLOSE)


WORKLOAD = Workload(
    name="regression",
    title="a small network that predicts a number",
    unit="rows",
    build=build,
    inputs=inputs,
    batch=16,
    judge=lambda options: RegressionTask(),
)

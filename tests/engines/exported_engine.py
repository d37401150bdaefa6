"""An engine that runs exported models: it keeps the layers of a torch ``Sequential`` as arrays, and runs them in numpy.

``create_engine("engines.exported_engine:ExportedEngine")`` creates it if ``tests`` is on the path. ``PerturbedEngine``
changes one layer by 1 % when it exports, ``BrokenEngine`` cannot export, and ``NoOutputsEngine`` does not tell what it
computes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from engines.fake_engine import FakeEngine, FakeModel, FakeSession

from modelzoo.engines.export.store import export_once
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.records.workload import Conversion, Export, Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

ARRAYS = "arrays.npz"


class ExportedEngine(FakeEngine):
    """Runs a ``torch.nn.Sequential`` of ``Linear`` and ``ReLU`` in turn; its versions say whether torch is imported."""

    name = "exported"
    perturbation = 1.0

    def versions(self) -> Mapping[str, str]:
        return {"numpy": np.__version__, "torch imported": str("torch" in sys.modules)}

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion = Conversion("numpy", np.__version__, options={"engine": type(self).__name__})
        return export_once(source, self.name, conversion, lambda directory: self._write(source, directory))

    def _write(self, source: TorchSource, directory: Path) -> None:
        arrays = {name: tensor.numpy().copy() for name, tensor in source.module.state_dict().items()}
        next(iter(arrays.values()))[...] *= self.perturbation
        np.savez(directory / ARRAYS, **arrays)

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        return setting.reference()

    def open(self, setting: ResolvedSetting) -> ExportedSession:
        return ExportedSession(setting)


class PerturbedEngine(ExportedEngine):
    """One layer of the exported weights is off by 1 %."""

    perturbation = 1.01


class BrokenEngine(ExportedEngine):
    """Its exporter fails."""

    def _write(self, source: TorchSource, directory: Path) -> None:
        (directory / "half").write_text("written before the failure")
        raise NotImplementedError("no operator aten::grumble\nand a traceback")


class NoOutputsEngine(ExportedEngine):
    """Its outputs cannot be compared."""

    def open(self, setting: ResolvedSetting) -> ExportedSession:
        session = ExportedSession(setting)
        session.model = _Silent
        return session


class ExportedSession(FakeSession):
    """Loads the arrays of the export."""

    model: type[ExportedModel]

    def __init__(self, setting: ResolvedSetting) -> None:
        super().__init__(setting)
        self.model = ExportedModel

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> FakeModel:
        with np.load(Path(export.path) / ARRAYS) as stored:
            arrays = [stored[name] for name in stored.files]
        layers = list(zip(arrays[::2], arrays[1::2]))

        def run(rows: Any) -> Any:
            for weight, bias in layers:
                rows = np.maximum(rows @ weight.T + bias, 0)
            return rows

        return self.model(workload.name, self._setting, run)


class ExportedModel(FakeModel):
    """The layers in numpy."""

    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        return RawOutputs((self.call(*args),))


class _Silent(ExportedModel):
    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        return Unavailable("the engine returns no arrays")

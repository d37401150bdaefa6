"""An engine that is not torch: it multiplies matrices by numpy, and cannot prove in which precision.

``create_engine("engines.fake_engine:FakeEngine")`` creates it if ``tests`` is on the path. A workload for it builds a
numpy function, whose keyword arguments are the arrays in the ``.npz`` file that holds its weights.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from modelzoo.engines.export import engine
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.errors import UsageError, WeightsError
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines.export.source import TorchSource

REASON = "the fake engine has no kernel log, so its precision cannot be verified"


class FakeEngine(engine.ExportedEngine):
    """Runs on the CPU, in fp32, eagerly; it needs no exported models."""

    name, bf16_method = "fake", "cast"

    def versions(self) -> Mapping[str, str]:
        return {"python": platform.python_version(), "numpy": np.__version__}

    def libraries(self) -> None:
        return None

    def check(self, setting: Setting) -> None:
        if setting.mode != "eager":
            raise UsageError(f"--mode {setting.mode}: the fake engine does not compile")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export | None:
        return None

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        return setting.reference().replace(engine=setting.engine)  # type: ignore[return-value]  # its own class

    def open(self, setting: ResolvedSetting) -> FakeSession:  # type: ignore[override]
        return FakeSession(setting)


class FakeSession:
    """Its only switch is numpy's handling of floating-point errors."""

    device: Any = None

    def __init__(self, setting: ResolvedSetting) -> None:
        self._setting = setting

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        with np.errstate(all="ignore"):
            yield ("numpy.errstate=ignore",)

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> FakeModel:
        try:
            with np.load(weights.path) as arrays:
                state = {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError) as error:
            raise WeightsError(f"{weights.path} cannot be read: {error}") from error
        function = functools.partial(workload.build(self._setting.options), **state)
        return FakeModel(workload.name, self._setting, function)

    def changed_switches(self) -> tuple[()]:
        return ()

    def canary(self) -> Unavailable:
        return Unavailable(REASON)


class FakeModel(engine.ExportedModel):
    """A numpy function with its weights; bf16 is imitated by cutting off fp32's lower 16 bits."""

    def __init__(self, workload: str, setting: ResolvedSetting, function: Callable[..., Any]) -> None:
        super().__init__(workload, setting)
        self.call = function

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        arrays = tuple(np.array(arg.numpy() if hasattr(arg, "numpy") else arg, dtype=np.float32) for arg in args)
        if self._setting.bf16_method is not None:
            for array in arrays:
                array.view(np.uint32)[...] &= np.uint32(0xFFFF0000)
        return arrays

    def predict(self, *args: Any) -> Any:
        import torch  # the judge's inputs are tensors, so it expects tensors

        with self.explained_errors():
            return torch.from_numpy(np.ascontiguousarray(self.call(*self.prepare(args))))

    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        return Unavailable("the fake engine runs no exported models")

    def reason_of(self, error: Exception) -> str | None:
        return str(error) if isinstance(error, ValueError) else None

    def listed(self, args: tuple[Any, ...], passes: int) -> Unavailable:
        return Unavailable(REASON)

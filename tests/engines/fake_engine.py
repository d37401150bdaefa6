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
from msgspec.structs import asdict

from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import EnvironmentProblem, UsageError, WeightsError
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence
from modelzoo.records.workload import Count, Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

REASON = "the fake engine has no kernel log, so its precision cannot be verified"


class FakeEngine:
    """Runs on the CPU, in fp32, eagerly."""

    name = "fake"

    def load(self) -> None:
        pass

    def versions(self) -> Mapping[str, str]:
        return {"python": platform.python_version(), "numpy": np.__version__}

    def libraries(self) -> None:
        return None

    def check(self, setting: Setting) -> None:
        if setting.device != "cpu":
            raise EnvironmentProblem(f"--device {setting.device}: the fake engine has only the CPU")
        if setting.mode != "eager":
            raise UsageError(f"--mode {setting.mode}: the fake engine does not compile")

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        method = (setting.bf16_method or "cast") if setting.precision == "bf16" else None
        decided = {"batch": setting.batch or batch, "threads": setting.threads or threads, "bf16_method": method}
        return ResolvedSetting(**{**asdict(setting), **decided})

    def export(self, setting: ResolvedSetting, source: TorchSource) -> None:
        return None

    def interpreter(self) -> None:
        return None

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        return {"FAKE_NUM_THREADS": str(setting.threads)}

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        return setting.reference().replace(engine=setting.engine)  # type: ignore[return-value]  # its own class

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        yield

    def open(self, setting: ResolvedSetting) -> FakeSession:
        return FakeSession(setting)


class FakeSession:
    """Its only switch is numpy's handling of floating-point errors."""

    device = None

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
        return FakeModel(workload, self._setting, function)

    def changed_switches(self) -> tuple[()]:
        return ()

    def canary(self) -> Unavailable:
        return Unavailable(REASON)


class FakeModel:
    """A numpy function with its weights; bf16 is imitated by cutting off fp32's lower 16 bits."""

    compilation = None
    module = None

    def __init__(self, workload: Workload, setting: ResolvedSetting, function: Callable[..., Any]) -> None:
        self._workload, self._setting, self.call = workload, setting, function

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        arrays = tuple(np.array(arg.numpy() if hasattr(arg, "numpy") else arg, dtype=np.float32) for arg in args)
        if self._setting.bf16_method is not None:
            for array in arrays:
                array.view(np.uint32)[...] &= np.uint32(0xFFFF0000)
        return arrays

    def predict(self, *args: Any) -> Any:
        with self.explained_errors():
            output = self.call(*self.prepare(args))
        if all(isinstance(arg, np.ndarray) for arg in args):
            return output
        import torch  # the judge's inputs were tensors, so it expects tensors

        return torch.from_numpy(np.ascontiguousarray(output))

    def outputs(self, args: tuple[Any, ...]) -> Unavailable:
        return Unavailable("the fake engine runs no exported models")

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise UsageError(f"{self._workload.name} cannot run with {self._setting.label}: {error}") from error

    def stored_bytes(self) -> None:
        return None

    def warnings(self) -> tuple[WarningMessage, ...]:
        return ()

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        return tuple(self._workload.count(self.call, Inputs(args, items))) if self._workload.count else ()

    def kernels(self, args: tuple[Any, ...]) -> Unavailable:
        return Unavailable(REASON)

    def audit(self, args: tuple[Any, ...], *, canary: Canary | None, replay: bool = False) -> Unavailable:
        return Unavailable(REASON)

    def flops(self, args: tuple[Any, ...]) -> Unavailable:
        return Unavailable("the fake engine does not count operations")

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Unavailable:
        return Unavailable("the fake engine has no profiler")


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = FakeEngine()

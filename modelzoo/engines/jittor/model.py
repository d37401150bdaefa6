"""Jittor's ResNet50 as a model of the suite, in a process that has imported Jittor."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from modelzoo.engines.export.engine import ExportedModel
from modelzoo.engines.jittor import evidence
from modelzoo.engines.jittor.framework import reason_of
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.profile import Flops
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload


class JittorModel(ExportedModel):
    """A module of Jittor; its first call, which compiles kernels or loads compiled ones, is part of loading it."""

    def __init__(
        self, workload: Workload, setting: ResolvedSetting, network: Any, inputs: Inputs, counted: Flops | None = None
    ) -> None:
        super().__init__(workload.name, setting)
        self._network, self._counted = network, counted
        args = self.prepare(inputs.args)
        began = perf_counter()
        with self.explained_errors():
            self.call(*args)
        self.compile_seconds = perf_counter() - began

    def call(self, *args: Any) -> Any:
        import jittor

        output = self._network(*args)
        # Jittor only records what is to be computed, so the output is requested here, and waited for.
        jittor.sync_all(True)
        return output

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        import jittor

        prepared = tuple(jittor.array(arg) for arg in args)
        jittor.sync_all(True)
        return prepared

    def predict(self, *args: Any) -> Any:
        return self.call(*self.prepare(args)).numpy()

    def outputs(self, args: tuple[Any, ...]) -> RawOutputs:
        return RawOutputs((self.call(*args).numpy(),))

    def reason_of(self, error: Exception) -> str | None:
        return reason_of(error) if isinstance(error, RuntimeError) else None

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        return evidence.log_kernels(lambda: self.call(*args))

    def audit(self, args: tuple[Any, ...], *, passes: int, canary: Canary | None) -> Observed[Evidence]:
        return evidence.audit(lambda: self.call(*args), passes, canary, self._counted)

    def flops(self, args: tuple[Any, ...]) -> Unavailable:
        return Unavailable("Jittor does not count operations")

    def profile(self, args: tuple[Any, ...], *, trace: Path | None, evidence: Evidence | None) -> Unavailable:
        return Unavailable("the suite takes no profile of Jittor")

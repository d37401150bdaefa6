"""Jittor as an engine: ResNet50 on the CPU, in fp32, with the kernels of oneDNN 2.x."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.engines.export.engine import ExportedEngine, ExportedSession
from modelzoo.engines.export.store import read_batch
from modelzoo.engines.jittor import environment, model
from modelzoo.engines.jittor.remote import ELSEWHERE, RemoteModel
from modelzoo.engines.protocol import Observed
from modelzoo.errors import UsageError
from modelzoo.machine import libraries
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource


_FLAGS = {"use_cuda": 0, "no_grad": 1}


class JittorEngine(ExportedEngine):
    """Jittor 1.3, in the environment that ``scripts/setup-jittor`` makes.

    In a process that has not imported Jittor, its models run in processes of their own.
    """

    name, title = "jittor", "Jittor"

    def options(self, setting: ResolvedSetting) -> Mapping[str, str]:
        return {f"jittor.flags.{name}": str(value) for name, value in _FLAGS.items() if environment.is_inside()}

    def context(self) -> AbstractContextManager[object]:
        if not environment.is_inside():
            return nullcontext()
        import jittor

        scope: AbstractContextManager[object] = jittor.flag_scope(**_FLAGS)
        return scope

    def model(self, session: ExportedSession, workload: Workload, inputs: Inputs, export: Export) -> protocol.Model:
        if not environment.is_inside():
            return RemoteModel(workload.name, session.setting, Path(export.path))
        loaded = model.load(Path(export.path))
        return model.JittorModel(workload.name, session.setting, loaded, inputs, read_batch(export).flops)

    def canary(self, session: ExportedSession) -> Observed[Canary]:
        return model.run_canary() if environment.is_inside() else ELSEWHERE

    def load(self) -> None:
        environment.interpreter()
        if environment.is_inside():
            environment.import_jittor()

    def versions(self) -> Mapping[str, str]:
        found = {**super().versions(), "jittor": environment.version() or "unknown"}
        if environment.is_inside():
            found["onednn"] = environment.onednn_version()
        return found

    def libraries(self) -> Libraries | None:
        if not environment.is_inside():
            return None
        versions = self.versions()
        line = f"jittor {versions['jittor']}: oneDNN {versions['onednn']}"
        return libraries.read_engine_libraries(line, "onednn", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision != "fp32":
            raise UsageError(f"--precision {setting.precision}: Jittor computes in fp32; use fp32 or another --engine")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        return model.export(source)

    def interpreter(self) -> str:
        return environment.interpreter()

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        return environment.variables(setting.threads)


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = JittorEngine()

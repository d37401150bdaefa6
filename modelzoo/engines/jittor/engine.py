"""Jittor as an engine: ResNet50 on the CPU, in fp32, with the kernels of oneDNN 2.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource


class JittorSession(ExportedSession):
    """One setting. In a process that has not imported Jittor, its models run in processes of their own."""

    title = "Jittor"

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        if not environment.is_inside():
            yield ()
            return
        import jittor

        with jittor.flag_scope(use_cuda=0, no_grad=1):
            yield ("jittor.flags.use_cuda=0", "jittor.flags.no_grad=1")

    def model(self, workload: Workload, inputs: Inputs, export: Export) -> protocol.Model:
        if not environment.is_inside():
            return RemoteModel(workload.name, self._setting, Path(export.path))
        loaded = model.load(Path(export.path))
        return model.JittorModel(workload.name, self._setting, loaded, inputs, read_batch(export).flops)

    def canary(self) -> Observed[Canary]:
        if not environment.is_inside():
            return ELSEWHERE
        return model.run_canary()


class JittorEngine(ExportedEngine):
    """Jittor 1.3, in the environment that ``scripts/setup-jittor`` makes."""

    name = "jittor"
    session = JittorSession

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

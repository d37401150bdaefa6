"""Jittor as an engine: ResNet50 on the CPU, in fp32, with the kernels of oneDNN 2.x."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.engines.export.engine import ExportedEngine, require_export, require_plain
from modelzoo.engines.export.store import read_batch
from modelzoo.engines.jittor import environment, network
from modelzoo.engines.jittor.remote import ELSEWHERE, RemoteModel
from modelzoo.engines.protocol import Unavailable
from modelzoo.errors import UsageError
from modelzoo.machine import libraries
from modelzoo.records.canary import Canary
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

TITLE = "Jittor"


class JittorEngine(ExportedEngine):
    """Jittor 1.3, in the environment that ``scripts/setup-jittor`` makes."""

    name = "jittor"

    def load(self) -> None:
        environment.interpreter()
        if environment.is_inside():
            from modelzoo.engines.jittor.framework import import_jittor

            import_jittor()

    def versions(self) -> Mapping[str, str]:
        found = {**libraries.package_versions(), "jittor": environment.version() or "unknown"}
        if environment.is_inside():
            from modelzoo.engines.jittor.framework import onednn_version

            found["onednn"] = onednn_version()
        return found

    def libraries(self) -> Libraries | None:
        if not environment.is_inside():
            return None
        from modelzoo.engines.jittor.framework import onednn_version

        line = f"jittor {environment.version()}: oneDNN {onednn_version()}"
        return libraries.read_engine_libraries(line, "onednn", self._threads)

    def check(self, setting: Setting) -> None:
        require_plain(setting, TITLE)
        if setting.precision != "fp32":
            raise UsageError(f"--precision {setting.precision}: {TITLE} computes in fp32; use fp32 or another --engine")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        return network.export(source)

    def interpreter(self) -> str:
        return environment.interpreter()

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        return environment.variables(setting.threads)

    def open(self, setting: ResolvedSetting) -> JittorSession | RemoteSession:
        self._threads = setting.threads
        return JittorSession(setting) if environment.is_inside() else RemoteSession(setting)


class JittorSession:
    """One setting, in a process that has imported Jittor."""

    device = None

    def __init__(self, setting: ResolvedSetting) -> None:
        import jittor

        self._setting = setting
        jittor.set_global_seed(setting.seed)

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        import jittor

        with jittor.flag_scope(use_cuda=0, no_grad=1):
            yield ("jittor.flags.use_cuda=0", "jittor.flags.no_grad=1")

    def load(
        self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None
    ) -> protocol.Model:
        from modelzoo.engines.jittor.model import JittorModel

        found = require_export(export, workload.name, TITLE)
        loaded = network.load(Path(found.path))
        return JittorModel(workload, self._setting, loaded, inputs, read_batch(found).flops)

    def changed_switches(self) -> tuple[()]:
        return ()

    def canary(self) -> Canary:
        from modelzoo.engines.jittor.model import run_canary

        return run_canary()


class RemoteSession:
    """One setting, in a process without Jittor: the model runs in a process of its own."""

    device = None

    def __init__(self, setting: ResolvedSetting) -> None:
        self._setting = setting

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        yield ()

    def load(
        self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None
    ) -> protocol.Model:
        return RemoteModel(Path(require_export(export, workload.name, TITLE).path), self._setting)

    def changed_switches(self) -> tuple[()]:
        return ()

    def canary(self) -> Unavailable:
        return ELSEWHERE


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = JittorEngine()

"""OpenVINO as an engine: its CPU plugin, one stream per process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from modelzoo.engines.export.engine import ExportedEngine, require_export, require_plain
from modelzoo.engines.export.store import export_once
from modelzoo.engines.openvino.model import (
    DEVICE,
    OpenVinoModel,
    compile_options,
    openvino_conversion,
    option_names,
    write_openvino,
)
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import libraries
from modelzoo.machine.installation import installed_version
from modelzoo.records.canary import Canary
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

TITLE = "OpenVINO"
BF16_METHOD = "hint"
"""The hint ``INFERENCE_PRECISION_HINT``: OpenVINO decides which layers it computes in bf16, and converts in between."""


class OpenVinoEngine(ExportedEngine):
    """OpenVINO 2024.6 or newer."""

    name = "openvino"
    packages = (name,)
    bf16_method = BF16_METHOD

    def versions(self) -> Mapping[str, str]:
        return {**libraries.package_versions(), "openvino": installed_version("openvino") or "unknown"}

    def libraries(self) -> Libraries:
        import openvino

        return libraries.read_engine_libraries(f"openvino {openvino.get_version()}", "openvino", self._threads)

    def check(self, setting: Setting) -> None:
        require_plain(setting, TITLE)
        if setting.precision not in ("fp32", "bf16"):
            raise UsageError(f"--precision {setting.precision}: {TITLE} runs fp32 and bf16 here")
        if setting.bf16_method not in (None, BF16_METHOD):
            raise UsageError(
                f"--bf16={setting.bf16_method}: {TITLE} takes a hint and decides itself which layers run in bf16; use "
                f"--bf16={BF16_METHOD}"
            )
        if setting.precision == "bf16" and "BF16" not in self._capabilities():
            raise EnvironmentProblem(f"--precision bf16: {TITLE} has no bf16 kernels for this CPU; use fp32")

    def _capabilities(self) -> list[str]:
        import openvino

        found: list[str] = openvino.Core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")
        return found

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion = openvino_conversion()
        return export_once(source, self.name, conversion, lambda place: write_openvino(source, conversion, place))

    def open(self, setting: ResolvedSetting) -> OpenVinoSession:
        self._threads = setting.threads
        return OpenVinoSession(setting)


class OpenVinoSession:
    """One setting; the options are those of every model that it compiles."""

    device = None

    def __init__(self, setting: ResolvedSetting) -> None:
        import openvino

        self._setting, self._options = setting, compile_options(setting)
        self._core = openvino.Core()

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        yield option_names(self._options)

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> OpenVinoModel:
        exported = require_export(export, workload.name, TITLE)
        return OpenVinoModel(workload.name, self._setting, self._core, self._options, exported, inputs.args)

    def changed_switches(self) -> tuple[()]:
        return ()

    def canary(self) -> Canary:
        from modelzoo.engines.openvino.model import run_canary

        return run_canary(self._core, self._options)


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = OpenVinoEngine()

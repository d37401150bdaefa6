"""OpenVINO as an engine: its CPU plugin, one stream per process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from modelzoo.engines.export.engine import ExportedEngine, ExportedSession, option_names
from modelzoo.engines.export.store import export_once
from modelzoo.engines.openvino.model import (
    DEVICE,
    OpenVinoModel,
    compile_options,
    openvino_conversion,
    run_canary,
    write_openvino,
)
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import libraries
from modelzoo.records.canary import Canary
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

BF16_METHOD = "hint"
"""The hint ``INFERENCE_PRECISION_HINT``: OpenVINO decides which layers it computes in bf16, and converts in between."""


class OpenVinoSession(ExportedSession):
    """One setting; the options are those of every model that it compiles."""

    title = "OpenVINO"

    def __init__(self, setting: ResolvedSetting) -> None:
        import openvino

        super().__init__(setting)
        self._options, self._core = compile_options(setting), openvino.Core()
        self.switches = option_names(self._options)

    def model(self, workload: Workload, inputs: Inputs, export: Export) -> OpenVinoModel:
        return OpenVinoModel(workload.name, self._setting, self._core, self._options, export, inputs.args)

    def canary(self) -> Canary:
        return run_canary(self._core, self._options)


class OpenVinoEngine(ExportedEngine):
    """OpenVINO 2024.6 or newer."""

    name = "openvino"
    packages = (name,)
    bf16_method = BF16_METHOD
    session = OpenVinoSession

    def libraries(self) -> Libraries:
        import openvino

        return libraries.read_engine_libraries(f"openvino {openvino.get_version()}", "openvino", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision not in ("fp32", "bf16"):
            raise UsageError(f"--precision {setting.precision}: OpenVINO runs fp32 and bf16 here")
        if setting.bf16_method not in (None, BF16_METHOD):
            raise UsageError(
                f"--bf16={setting.bf16_method}: OpenVINO takes a hint and decides itself which layers run in bf16; use "
                f"--bf16={BF16_METHOD}"
            )
        if setting.precision == "bf16" and "BF16" not in self._capabilities():
            raise EnvironmentProblem("--precision bf16: OpenVINO has no bf16 kernels for this CPU; use fp32")

    def _capabilities(self) -> list[str]:
        import openvino

        found: list[str] = openvino.Core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")
        return found

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion = openvino_conversion()
        return export_once(source, self.name, conversion, lambda place: write_openvino(source, conversion, place))


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = OpenVinoEngine()

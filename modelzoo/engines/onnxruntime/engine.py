"""ONNX Runtime as an engine: the CPU provider, one session per process."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.engines.export.engine import ExportedEngine, ExportedSession, option_names
from modelzoo.engines.export.onnx import GRAPH_OPSET, TRACED_OPSET, onnx_conversion, write_onnx
from modelzoo.engines.export.store import export_once
from modelzoo.engines.onnxruntime.model import FAST_MATH, PROVIDERS, OnnxRuntimeModel, run_canary, session_options
from modelzoo.engines.onnxruntime.quantization import (
    calibration,
    quantize_files,
    quantized_conversion,
    resolve_recipe,
)
from modelzoo.errors import UsageError
from modelzoo.machine import libraries
from modelzoo.machine.installation import installed_release
from modelzoo.records.canary import Canary
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Export
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

ARM = ("aarch64", "arm64")
ATTENTION = (1, 23)
"""The first release with opset 23, and its operator ``Attention`` on the CPU."""


class OnnxRuntimeSession(ExportedSession):
    """One setting; the options are those of every session that it creates."""

    title = "ONNX Runtime"

    def __init__(self, setting: ResolvedSetting) -> None:
        super().__init__(setting)
        self._options = session_options(setting)
        self.switches = option_names({**self._options, "providers": ",".join(PROVIDERS)})

    def model(self, workload: Workload, inputs: Inputs, export: Export) -> OnnxRuntimeModel:
        return OnnxRuntimeModel(workload.name, self._setting, self._options, export)

    def canary(self) -> Canary:
        return run_canary(self._options, self._setting.recipe)


class OnnxRuntimeEngine(ExportedEngine):
    """ONNX Runtime 1.17 or newer."""

    name = "onnxruntime"
    packages = (name, "onnx")
    bf16_method = "fastmath"
    session = OnnxRuntimeSession

    def libraries(self) -> Libraries:
        import onnxruntime

        line = f"onnxruntime {onnxruntime.__version__}: {onnxruntime.get_build_info().partition(': ')[2]}"
        return libraries.read_engine_libraries(line, "mlas", self._threads)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.precision not in ("fp32", "bf16", "int8"):
            raise UsageError(f"--precision {setting.precision}: ONNX Runtime runs fp32, int8 and, on ARM CPUs, bf16")
        self.resolve_recipe(setting)
        if setting.precision == "bf16" and platform.machine() not in ARM:
            raise UsageError(
                f"--precision bf16: ONNX Runtime has no bf16 kernels on {platform.machine()} ({FAST_MATH} exists on "
                "ARM only); use fp32 or another --engine"
            )
        if setting.bf16_method not in (None, "fastmath"):
            raise UsageError(f"--bf16={setting.bf16_method}: ONNX Runtime has fast math only; use --bf16=fastmath")

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion, recipe = onnx_conversion(source, newest_opset()), setting.recipe
        if recipe is None:
            return export_once(source, self.name, conversion, lambda place: write_onnx(source, conversion, place))

        batches = calibration(source, recipe)

        def write(place: Path) -> tuple[str, ...]:
            parts = write_onnx(source, conversion, place)
            quantize_files(place, recipe, batches)
            return parts

        return export_once(source, self.name, quantized_conversion(conversion, recipe, batches), write)

    def resolve_recipe(self, setting: Setting) -> str | None:
        return resolve_recipe(setting)


def newest_opset() -> int:
    """The newest ONNX operators that the installed version runs, as far as this suite exports any."""
    return GRAPH_OPSET if installed_release("onnxruntime") >= ATTENTION else TRACED_OPSET


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = OnnxRuntimeEngine()

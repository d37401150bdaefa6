"""ONNX Runtime as an engine: the CPU provider, one session per process."""

from __future__ import annotations

import importlib
import platform
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from modelzoo.engines.export.onnx import GRAPH_OPSET, TRACED_OPSET, onnx_conversion, write_onnx
from modelzoo.engines.export.store import export_once
from modelzoo.engines.onnxruntime.model import OnnxRuntimeModel
from modelzoo.engines.onnxruntime.options import FAST_MATH, PROVIDERS, session_settings
from modelzoo.engines.plain_setting import require_plain
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine import libraries
from modelzoo.machine.environment import OPENMP_AND_BLAS_THREADS
from modelzoo.machine.installation import installed_version
from modelzoo.records.canary import Canary
from modelzoo.records.export import Export
from modelzoo.records.libraries import Libraries
from modelzoo.records.workload import Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource

TITLE = "ONNX Runtime"
ARM = ("aarch64", "arm64")
_PACKAGES = ("onnxruntime", "onnx")
ATTENTION = (1, 23)
"""The first release with opset 23, and its operator ``Attention`` on the CPU."""
_INSTALL = "pip install 'modelzoo[onnxruntime]'"


class OnnxRuntimeEngine:
    """ONNX Runtime 1.17 or newer."""

    name = "onnxruntime"

    def __init__(self) -> None:
        self._threads = 0  # of the latest session

    def load(self) -> None:
        for package in _PACKAGES:
            try:
                importlib.import_module(package)
            except ImportError as error:
                problem = "is not installed" if installed_version(package) is None else f"cannot be imported ({error})"
                raise EnvironmentProblem(f"{package} {problem}: run {_INSTALL}") from error

    def versions(self) -> Mapping[str, str]:
        found = {name: installed_version(name) for name in _PACKAGES}
        return {**libraries.package_versions(), **{name: version for name, version in found.items() if version}}

    def libraries(self) -> Libraries:
        import onnxruntime

        line = f"onnxruntime {onnxruntime.__version__}: {onnxruntime.get_build_info().partition(': ')[2]}"
        return libraries.read_engine_libraries(line, "mlas", self._threads)

    def check(self, setting: Setting) -> None:
        require_plain(setting, TITLE)
        if setting.precision not in ("fp32", "bf16"):
            raise UsageError(f"--precision {setting.precision}: {TITLE} runs fp32 and, on ARM CPUs, bf16")
        if setting.precision == "bf16" and platform.machine() not in ARM:
            raise UsageError(
                f"--precision bf16: {TITLE} has no bf16 kernels on {platform.machine()} ({FAST_MATH} exists on ARM "
                "only); use fp32 or another --engine"
            )
        if setting.bf16_method not in (None, "fastmath"):
            raise UsageError(f"--bf16={setting.bf16_method}: {TITLE} has fast math only; use --bf16=fastmath")

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        method = "fastmath" if setting.precision == "bf16" else None
        decided = {"batch": setting.batch or batch, "threads": setting.threads or threads, "bf16_method": method}
        return ResolvedSetting(**{**asdict(setting), **decided})

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export:
        conversion = onnx_conversion(source, newest_opset())
        return export_once(source, self.name, conversion, lambda place: write_onnx(source, conversion, place))

    def interpreter(self) -> None:
        return None

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        # ONNX Runtime has threads of its own; numpy, and torch as the reference, have those of OpenMP or a BLAS.
        return dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(setting.threads))

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        return setting.reference()

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        yield

    def open(self, setting: ResolvedSetting) -> OnnxRuntimeSession:
        self._threads = setting.threads
        return OnnxRuntimeSession(setting)


class OnnxRuntimeSession:
    """One setting; the options are those of every session that it creates."""

    device = None

    def __init__(self, setting: ResolvedSetting) -> None:
        self._setting, self._options = setting, session_settings(setting)

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        yield self._options.names

    def load(
        self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None
    ) -> OnnxRuntimeModel:
        if export is None:
            raise UsageError(f"{workload.name} has not been exported for {TITLE}; run it through modelzoo")
        return OnnxRuntimeModel(workload.name, self._setting, self._options, export)

    def canary(self) -> Canary:
        from modelzoo.engines.onnxruntime.canary import run_canary

        return run_canary(self._options.options(), PROVIDERS)


def newest_opset() -> int:
    """The newest ONNX operators that the installed version runs, as far as this suite exports any."""
    release = re.match(r"(\d+)\.(\d+)", installed_version("onnxruntime") or "")
    has_attention = release is not None and (int(release[1]), int(release[2])) >= ATTENTION
    return GRAPH_OPSET if has_attention else TRACED_OPSET


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = OnnxRuntimeEngine()

"""PyTorch as an engine."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from modelzoo.engines.protocol import Engine
from modelzoo.engines.torch import compilation, devices, execution, switches
from modelzoo.engines.torch.devices import TorchDevice, device_problem
from modelzoo.engines.torch.execution import TorchModel
from modelzoo.engines.torch.quantization import STATIC, check_recipe, quantized, resolve_recipe
from modelzoo.engines.torch.switches import autocast, check_precision, dtype_of, resolve_bf16_method
from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import installation
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.run_report import ChangedSwitch
from modelzoo.records.workload import Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload, calibration_inputs
from modelzoo.workload.discovery import installation_advice
from modelzoo.workload.weights import load_model

if TYPE_CHECKING:
    pass

PRIMITIVE_CACHE_VARIABLE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""How many primitives oneDNN keeps (source: its developer guide, "Primitive Cache")."""


class TorchEngine(Engine):
    """PyTorch, eager or compiled."""

    name = "torch"

    def load(self) -> None:
        installation.import_torch()

    def versions(self) -> Mapping[str, str]:
        return installation.package_versions()

    def libraries(self) -> Libraries:
        return installation.read_libraries()

    def check(self, setting: Setting) -> None:
        devices.check_device(setting.device)
        check_precision(setting)
        check_recipe(setting)
        compilation.require_mode(setting)
        switches.require_linear(setting)

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        decided = {
            "batch": setting.batch or batch,
            "threads": setting.threads or installation.supported_threads(threads),
            "bf16_method": resolve_bf16_method(setting, math_mode),
            "recipe": resolve_recipe(setting),
        }
        return ResolvedSetting(**{**asdict(setting), **decided})

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        found = dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(setting.threads))
        # The variable would apply to an fp32 reference in the same process as well, so switches are preferred.
        if setting.bf16_method == "fastmath" and (not with_reference or switches.needs_math_mode_variable()):
            found[MATH_MODE_VARIABLE] = "BF16"
        if setting.primitive_cache is not None:
            found[PRIMITIVE_CACHE_VARIABLE] = str(setting.primitive_cache)
        if setting.mode in compilation.COMPILING:
            found[compilation.WARM_POOL] = "0"
        return found

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        plain = setting.reference()
        # If the variable is set, this torch has no switch that overrides it; without oneDNN it has no effect.
        return replace(plain, backend="blas") if MATH_MODE_VARIABLE in os.environ else plain

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Explain errors that come from a torchvision that does not match torch.

        That is not checked up front: importing torchvision takes a second, and not every workload needs it.
        """
        try:
            yield
        except (ImportError, RuntimeError, AttributeError) as error:
            installation.import_torchvision()
            if isinstance(error, ImportError):
                raise EnvironmentProblem(f"{error}; {installation_advice(error.name or '')}") from error
            raise

    def open(self, setting: ResolvedSetting) -> TorchSession:
        import torch

        device = devices.select_device(setting.device)
        torch.set_num_threads(setting.threads)
        torch.manual_seed(setting.seed)
        return TorchSession(setting, device)


class TorchSession:
    """One setting, in a process that has imported torch."""

    def __init__(self, setting: ResolvedSetting, device: TorchDevice | None = None) -> None:
        self._setting = setting
        self.device = device

    @contextmanager
    def active(self) -> Iterator[tuple[str, ...]]:
        import torch

        try:
            with torch.inference_mode(), switches.applied(self._setting) as names:
                yield names
        except RuntimeError as error:
            # Work is asynchronous: an error of the device may surface in whatever waits for it.
            problem = device_problem(error, self._setting.device) if self.device is not None else None
            if problem is None:
                raise
            raise problem from error

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> TorchModel:
        loaded = load_model(workload, self._setting.options, weights)
        calibration: Sequence[Inputs] = ()
        if self._setting.recipe == STATIC:
            with execution.refusing_recipe(workload, STATIC):
                _ = self._exported
            calibration = calibration_inputs(workload, self._setting, weights)
        given = calibration, loaded.converted, self.device, loaded.warnings
        return execution.build(workload, loaded.module, inputs, self._setting, *given)

    def changed_switches(self) -> tuple[ChangedSwitch, ...]:
        return switches.changed(self._setting)

    def canary(self) -> Canary:
        from modelzoo.evidence.audit import watched_kernels
        from modelzoo.evidence.canary import run_canary

        watch = None if self.device is not None else watched_kernels
        if self._setting.recipe is not None:
            return run_canary(watch=watch, quantize=self._quantized)
        with autocast(self._setting):
            dtype = dtype_of(self._setting) if self._setting.bf16_method == "cast" else None
            return run_canary(self._setting.device, dtype, watch)

    @cached_property
    def _exported(self) -> Any:
        """The layer of the canary, quantized statically.

        Exporting makes dynamo forget what it has compiled, so it must come before the model, or what is observed after
        the canary would not be what was timed.
        """
        from modelzoo.evidence.canary import linear_layer

        layer, rows = linear_layer()
        return quantized(layer, STATIC, [(rows,)])

    def _quantized(self, layer: Any, rows: Any) -> Any:
        """The canary's ``layer``, quantized as those of a model; ``rows`` are its inputs."""
        if self._setting.recipe != STATIC:
            return quantized(layer, self._setting.recipe or "")
        compiled = compilation.inductor(self._exported, self._setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(rows)  # so that only kernels are observed later
        return compiled

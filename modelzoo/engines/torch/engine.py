"""PyTorch as an engine."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from modelzoo.engines.protocol import Engine, Observed, RawOutputs, Unavailable
from modelzoo.engines.torch import compilation, devices, execution, switches
from modelzoo.engines.torch.compilation import kept
from modelzoo.engines.torch.devices import TorchDevice, device_problem
from modelzoo.engines.torch.quantization import STATIC, arithmetic_of, check_recipe, quantized, resolve_recipe
from modelzoo.engines.torch.switches import autocast, check_precision, dtype_of, resolve_bf16_method
from modelzoo.errors import EnvironmentProblem, first_line
from modelzoo.frozen import replace
from modelzoo.machine import installation
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Libraries
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.run_report import ChangedSwitch
from modelzoo.records.workload import Count, Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage
from modelzoo.workload.declaration import Inputs, Workload, calibration_inputs
from modelzoo.workload.discovery import installation_advice
from modelzoo.workload.weights import load_model

if TYPE_CHECKING:
    from modelzoo.evidence.recording import Phases, Recording

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
        self._exported: Any = None

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
                self._export_canary()
            calibration = calibration_inputs(workload, self._setting, weights)
        built = execution.build(workload, loaded.module, inputs, self._setting, calibration, loaded.converted)
        return TorchModel(workload, self._setting, built, self.device, notes=loaded.warnings)

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

    def _export_canary(self) -> None:
        """Quantize the layer of the canary statically.

        Exporting makes dynamo forget what it has compiled, so it must come before the model, or what is observed after
        the canary would not be what was timed.
        """
        from modelzoo.evidence.canary import linear_layer

        layer, rows = linear_layer()
        self._exported = quantized(layer, STATIC, [(rows,)])

    def _quantized(self, layer: Any, rows: Any) -> Any:
        """The canary's ``layer``, quantized as those of a model; ``rows`` are its inputs."""
        if self._setting.recipe != STATIC:
            return quantized(layer, self._setting.recipe or "")
        if self._exported is None:
            self._export_canary()
        compiled = compilation.inductor(self._exported, self._setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(rows)  # so that only kernels are observed later
        return compiled


class TorchModel:
    """A torch module under a setting, as an executable and in its eager form."""

    def __init__(
        self,
        workload: Workload,
        setting: ResolvedSetting,
        executable: execution.Executable,
        device: TorchDevice | None = None,
        notes: tuple[WarningMessage, ...] = (),
    ) -> None:
        self._notes = notes
        self._workload, self._setting, self._executable, self._device = workload, setting, executable, device
        self.module, self.compilation = executable.module, executable.compilation
        self.call, self._eager = executable.call, executable.model
        self._recording: Recording | None = None

    def composed(self, compose: Callable[[Callable[..., Any]], Callable[..., Any]]) -> TorchModel:
        found = copy.copy(self)
        found.call, found._eager, found._recording = compose(self.call), compose(self._eager), None
        return found

    def weight_bytes(self) -> int | None:
        return execution.weight_bytes(self._executable.model)

    def stored_bytes(self) -> int | None:
        return execution.weight_bytes(self._executable.model, with_tables=True)

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._executable.prepare(args)

    def predict(self, *args: Any) -> Any:
        with self.explained_errors():
            return self._executable.own(self._executable.call(*kept(self._executable.prepare(args))))

    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        if self._setting.bf16_method == "cast":
            return Unavailable("the model was cast to bf16, and none in fp32 is left to compare it with")
        if self._setting.precision == "bf16" and self._workload.heads is not None:
            return Unavailable("rounding to bf16 changes which detections there are")
        try:
            return execution.outputs(self._executable, args, self._setting.precision)
        except Exception as error:  # a model may compute under autocast only, or have operators of its own
            if self._setting.precision != "bf16":
                raise
            return Unavailable(f"the model cannot be computed in fp32 too: {first_line(error)}")

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise execution.refusal(self._workload, self._setting, error, self._executable.converted) from error

    def warnings(self) -> tuple[WarningMessage, ...]:
        return (*self._notes, *self._executable.warnings())

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        if self._workload.count is None:
            return ()
        with autocast(self._setting):
            return tuple(self._workload.count(self._executable.model, Inputs(kept(args), items)))

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        return devices.digest(lambda: self.call(*args), self._device)

    def audit(self, args: tuple[Any, ...], *, canary: Canary | None, replay: bool = False) -> Observed[Evidence]:
        return self._judged(self._record(args, replay=replay), canary)

    def audit_phases(
        self, args: tuple[Any, ...], phases: Phases, *, canary: Canary | None
    ) -> tuple[Observed[Evidence], Mapping[str, tuple[Observed[Evidence], Observed[Flops]]]]:
        recording = self._record(args, replay=True, phases=phases)
        alone = {name: recording.phase(name) for name in recording.passes}
        return self._judged(recording, canary), {
            name: (self._judged(each, canary), _counted(each)) for name, each in alone.items()
        }

    def _record(self, args: tuple[Any, ...], *, replay: bool, phases: Phases | None = None) -> Recording:
        """One recorded call, whose products are called again if ``replay``."""
        from modelzoo.evidence.flops import follows_compiled_code
        from modelzoo.evidence.recording import Plan, record_pass
        from modelzoo.evidence.replay import budget_after
        from modelzoo.machine.facts import read_machine

        def budget(seconds: float) -> float:
            return budget_after(seconds, emulated=read_machine().emulator is not None)

        def eager() -> object:
            with autocast(self._setting):
                return self._eager(*args)

        plan = Plan(
            model=self.module or self._executable.model,
            eager=None if self.module is not None else eager,
            intercepts=self._setting.mode not in compilation.COMPILING or follows_compiled_code(),
            budget=budget if replay else None,
            asked=arithmetic_of(self._setting),
            phases=phases,
            device="cpu" if self._device is None else self._device.kind,
            synchronize=(lambda: None) if self._device is None else self._device.synchronize,
        )
        self._recording = record_pass(lambda: self.call(*args), plan)
        return self._recording

    def _judged(self, recording: Recording, canary: Canary | None) -> Evidence:
        from modelzoo.evidence.attribution import attribute_recording
        from modelzoo.evidence.verdict import judge_attributed

        setting = self._setting
        is_compiled = setting.mode in compilation.COMPILING
        audit = attribute_recording(recording, canary, setting.bf16_method, is_compiled=is_compiled)
        return judge_attributed(audit, canary, arithmetic_of(setting), setting.bf16_method)

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        return _counted(self._recording or self._record(args, replay=False))

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Observed[Profile]:
        from modelzoo.evidence.attribution import recorded_profile

        recording = self._recording or self._record(args, replay=False)
        modules = self.module.named_modules() if self.module is not None else ()
        return recorded_profile(recording, {path: type(each).__name__ for path, each in modules}, evidence)


def _counted(recording: Recording) -> Observed[Flops]:
    return recording.counted() or Unavailable("; ".join(recording.problems) or "the operations were not counted")

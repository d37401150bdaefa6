"""PyTorch as an engine."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable

from msgspec.structs import asdict

from modelzoo.engines.protocol import Observed, Part, RawOutputs, Unavailable, value_and_problem
from modelzoo.engines.torch import compilation, devices, execution, switches
from modelzoo.engines.torch.compilation import kept
from modelzoo.engines.torch.devices import TorchDevice, device_problem
from modelzoo.engines.torch.precision import autocast, check_precision, dtype_of, resolve_bf16_method
from modelzoo.engines.torch.quantization import STATIC, arithmetic_of, check_recipe, quantized, resolve_recipe
from modelzoo.errors import EnvironmentProblem
from modelzoo.frozen import replace
from modelzoo.machine import installation, libraries
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.libraries import Libraries
from modelzoo.records.machine import OPENMP_AND_BLAS_THREADS
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.run_report import ChangedSwitch, Compilation
from modelzoo.records.workload import Count, Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage
from modelzoo.workload.declaration import Inputs, Workload, calibration_inputs
from modelzoo.workload.discovery import installation_advice
from modelzoo.workload.weights import load_model

if TYPE_CHECKING:
    from modelzoo.engines import protocol
    from modelzoo.engines.export.source import TorchSource
    from modelzoo.evidence.audited import AttributedAudit, Ran
    from modelzoo.evidence.flops import Call
    from modelzoo.evidence.observation import Audit, Replays

    Pass = Callable[[], object]

PRIMITIVE_CACHE_VARIABLE = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
"""How many primitives oneDNN keeps (source: its developer guide, "Primitive Cache")."""
"""A problem of an audit: a model that computes otherwise while it is observed would not be noticed."""


class TorchEngine:
    """PyTorch, eager or compiled."""

    name = "torch"

    def load(self) -> None:
        installation.import_torch()

    def versions(self) -> Mapping[str, str]:
        return libraries.package_versions()

    def libraries(self) -> Libraries:
        return libraries.read_libraries()

    def check(self, setting: Setting) -> None:
        devices.check_device(setting.device)
        check_precision(setting)
        check_recipe(setting)
        compilation.require_mode(setting)
        switches.require_linear(setting)

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        import torch

        method = resolve_bf16_method(
            setting,
            architecture=platform.machine(),
            has_onednn=torch.backends.mkldnn.is_available(),
            inherited_mode=math_mode,
        )
        count = setting.threads or libraries.supported_threads(threads)
        decided = {
            "batch": setting.batch or batch,
            "threads": count,
            "bf16_method": method,
            "recipe": resolve_recipe(setting),
        }
        return ResolvedSetting(**{**asdict(setting), **decided})

    def export(self, setting: ResolvedSetting, source: TorchSource) -> None:
        return None

    def interpreter(self) -> None:
        return None

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
        from modelzoo.evidence.canary import run_canary, run_quantized_canary

        watch = None if self.device is not None else watched_kernels
        if self._setting.recipe is not None:
            return run_quantized_canary(self._quantized, watch)
        with autocast(self._setting):
            dtype = dtype_of(self._setting) if self._setting.bf16_method == "cast" else None
            return run_canary(self._setting.device, dtype, watch)

    def _export_canary(self) -> None:
        """Quantize the layer of the canary statically.

        Exporting makes dynamo forget what it has compiled, so it must come before the model, or what is observed after
        the canary would not be what was timed.
        """
        from modelzoo.evidence.canary import linear_case

        layer, rows, _ = linear_case()
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
        compose: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda forward: forward,
        notes: tuple[WarningMessage, ...] = (),
    ) -> None:
        self._notes = notes
        self._workload, self._setting, self._executable, self._device = workload, setting, executable, device
        self._compose = compose
        self.call, self._eager = compose(executable.call), compose(executable.model)
        self._calls: Observed[tuple[Call, ...]] | None = None

    def composed(self, compose: Callable[[Callable[..., Any]], Callable[..., Any]]) -> TorchModel:
        own, given = self._compose, (self._workload, self._setting, self._executable, self._device)
        return TorchModel(*given, lambda forward: compose(own(forward)), self._notes)

    def weight_bytes(self) -> int | None:
        return execution.weight_bytes(self._executable.model)

    def stored_bytes(self) -> int | None:
        return execution.weight_bytes(self._executable.model, with_tables=True)

    @property
    def compilation(self) -> Compilation | None:
        return self._executable.compilation

    @property
    def module(self) -> Any:
        return self._executable.module

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._executable.prepare(args)

    def predict(self, *args: Any) -> Any:
        with self.explained_errors():
            return self._executable.own(self._executable.call(*kept(self._executable.prepare(args))))

    def outputs(self, args: tuple[Any, ...]) -> RawOutputs:
        return execution.outputs(self._executable, args)

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
        if self._device is not None:
            return devices.digest(lambda: self.call(*args), self._device)
        return execution.logged_kernels(lambda: self.call(*args))

    def audit(
        self, args: tuple[Any, ...], *, passes: int, canary: Canary | None, replay: bool = False
    ) -> Observed[Evidence]:
        if self._device is not None:
            eager = None if self._setting.mode == "eager" else lambda: self._call_eager(args)
            call = devices.AuditedCall(lambda: self.call(*args), eager, self._setting)
            return devices.audit(call, self._device, passes, canary)
        return self._judged(self._attributed(args, passes, canary, replay=replay), canary)

    def audit_parts(
        self, args: tuple[Any, ...], parts: Sequence[Part], *, canary: Canary | None
    ) -> tuple[Observed[Evidence], list[Observed[Evidence]]]:
        from modelzoo.evidence.audited import compared_with_parts, joined
        from modelzoo.evidence.flops import sum_flops

        # First the whole: afterwards a part may hold what a whole call needs.
        if self._device is not None:
            evidence, alone, _ = self.audit(args, passes=1, canary=canary), [], self.flops(args)
            for part in parts:
                part.ready()
                alone.append(part.model.audit(part.args, passes=1, canary=canary))
            return evidence, alone
        whole, audits, ran = self._ran(args), [], []
        for part in parts:
            model = part.model
            assert isinstance(model, TorchModel), "a part was made by composed"
            found = model._attributed(part.args, 1, canary, replay=True, ready=part.ready, share=1 / len(parts))
            audits.append((found, part.times))
            part.ready()
            ran.append((model._ran(part.args), part.times))
        counted = sum_flops(whole.calls) if whole.calls else None
        audit = joined(audits, counted, compared_with_parts(whole, ran))
        return self._judged(audit, canary), [self._judged(each, canary) for each, _ in audits]

    def _ran(self, args: tuple[Any, ...]) -> Ran:
        """What a call runs: by the logs of the libraries, and in another pass, if not known yet, by its operators."""
        from modelzoo.evidence.audited import Ran
        from modelzoo.evidence.outputs import watched_operations

        logged, watch = watched_operations(lambda: self.call(*args))
        calls, _ = value_and_problem(self._recorded_calls(args, watch.observed if self.module is not None else None))
        return Ran(logged, calls, watch.differ, watch.is_random())

    def _attributed(
        self,
        args: tuple[Any, ...],
        passes: int,
        canary: Canary | None,
        *,
        replay: bool,
        ready: Callable[[], None] = lambda: None,
        share: float = 1.0,
    ) -> AttributedAudit:
        """An audit; ``share``: of the time for replays that this one may take."""
        from modelzoo.evidence.audit import run_audit
        from modelzoo.evidence.audited import attribute_audit

        replays: Replays | None = None
        if replay:
            audit, replays = self._asked(args, passes, ready, share)
        else:
            audit = run_audit(lambda: self.call(*args), passes)
        ready()
        calls, _ = value_and_problem(self._recorded_calls(args))
        return attribute_audit(audit, canary, self._setting.bf16_method, calls=tuple(calls or ()), replays=replays)

    def _judged(self, audit: AttributedAudit, canary: Canary | None) -> Evidence:
        from modelzoo.evidence.verdict import judge_attributed

        return judge_attributed(audit, canary, arithmetic_of(self._setting), self._setting.bf16_method)

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        from modelzoo.evidence.flops import sum_flops

        calls = self._recorded_calls(args)
        return calls if isinstance(calls, Unavailable) else sum_flops(calls)

    def _asked(
        self, args: tuple[Any, ...], passes: int, ready: Callable[[], None], share: float
    ) -> tuple[Audit, Replays | None]:
        """An audit, and what an eager pass whose operators are intercepted shows; ``None`` if they cannot be.

        Only what runs in eager mode is what this pass runs, so only there are its products called again.
        """
        from modelzoo.evidence.outputs import watched_audit
        from modelzoo.evidence.replay import ask_products, budget_after, follow_pass
        from modelzoo.machine.facts import read_machine

        def follow(observed: Callable[[], None], seconds: float) -> tuple[list[Call], Replays]:
            if self.module is None:
                return follow_pass(lambda: self._call_eager(args), self._executable.model)
            budget = share * budget_after(seconds, emulated=read_machine().emulator is not None)
            return ask_products(observed, self.module, budget, asked=arithmetic_of(self._setting))

        audit, replays, calls = watched_audit(lambda: self.call(*args), passes, follow, ready)
        self._calls = Unavailable(calls) if isinstance(calls, str) else calls
        return audit, replays

    def _recorded_calls(self, args: tuple[Any, ...], call: Pass | None = None) -> Observed[tuple[Call, ...]]:
        """The operators of one eager pass, ``call`` if given; of one only: ``args`` are always the measured batch."""
        from modelzoo.evidence.flops import FlopCountError, record_calls

        if self._calls is None:
            try:
                self._calls = tuple(record_calls(call or (lambda: self._call_eager(args))))
            except FlopCountError as error:
                self._calls = Unavailable(str(error))
        return self._calls

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Observed[Profile]:
        if self._device is not None:
            return Unavailable("times of operators are measured on CPUs only; the audit has those of the kernels")
        from modelzoo.evidence.profile import operator_profile

        call, eager = lambda: self.call(*args), lambda: self._call_eager(args)
        return operator_profile(call, self.module, evidence=evidence, eager=eager)

    def _call_eager(self, args: tuple[Any, ...]) -> Any:
        """One pass of the eager model: operators of a compiled or scripted one cannot be intercepted."""
        with autocast(self._setting):
            return self._eager(*args)


if TYPE_CHECKING:
    _ENGINE: protocol.Engine = TorchEngine()

"""Turn a model and a setting into a callable, the way an inference server would call it.

Timing, audit and validation all use this code, so what is validated is what was timed.
"""

from __future__ import annotations

import copy
import os
import shlex
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modelzoo.engines.export.source import flatten, in_fp32, rebuild, slightly_changed
from modelzoo.engines.protocol import Observed, RawOutputs, Unavailable
from modelzoo.engines.torch import switches
from modelzoo.engines.torch.compilation import AOT, COMPILING, INDUCTOR_CACHE, GraphedModel, captured, compiled, kept
from modelzoo.engines.torch.devices import TorchDevice, device_problem, digest
from modelzoo.engines.torch.quantization import STATIC, NothingToQuantizeError, arithmetic_of, quantized, weight_bytes
from modelzoo.engines.torch.switches import autocast, cast_model, dtype_of, mapped
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, first_line, own_place
from modelzoo.evidence.rounded import rounded_to
from modelzoo.frozen import replace
from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.run_report import Compilation
from modelzoo.records.workload import Count
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for
from modelzoo.workload.declaration import Inputs, Workload, inputs_digest

if TYPE_CHECKING:
    from modelzoo.evidence.recording import Phases, Recording

LONGEST_REASON = 200
"""Characters of torch's reason why a model cannot run; an expression in it can be longer than a screen."""
DYNAMO_ADVICE = "Set TORCHDYNAMO_VERBOSE"
"""How dynamo's advice to its own developers begins, behind the reason."""


@dataclass
class TorchModel:
    """A torch module that is ready to run under a setting, and its eager form.

    Attributes:
        workload: its declaration.
        setting: how it is run.
        model: the eager module, on its device, in its data type and memory format, as torch computes it.
        module: what ``call`` runs in eager mode, where it can be observed layer by layer; ``None`` otherwise.
        call: maps prepared positional arguments to the outputs. It enters autocast on each call, as servers do.
        convert: moves and converts inputs the way the model was.
        compilation: what compiling, tracing or capturing took; ``None`` in eager mode.
        converted: types from which weights were converted to fp32 (``modelzoo.workload.weights.Loaded``).
        device: what computes it; ``None`` for the CPU.
        notes: what loading it has shown.
    """

    workload: Workload
    setting: Setting
    model: Any
    module: Any
    call: Callable[..., Any]
    convert: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    compilation: Compilation | None
    converted: Mapping[str, float]
    device: TorchDevice | None = None
    notes: tuple[WarningMessage, ...] = ()

    def __post_init__(self) -> None:
        self._was_training, self._eager = _in_training(self.model), self.model
        self._recording: Recording | None = None

    def composed(self, compose: Callable[[Callable[..., Any]], Callable[..., Any]]) -> TorchModel:
        found = copy.copy(self)
        found.call, found._eager, found._recording = compose(self.call), compose(self._eager), None
        return found

    def weight_bytes(self) -> int | None:
        return weight_bytes(self.model)

    def stored_bytes(self) -> int | None:
        return weight_bytes(self.model, with_tables=True)

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.convert(args)

    def own(self, outputs: Any) -> Any:
        """The outputs on the host, where the next call does not overwrite them."""
        if self.setting.device != "cpu":
            return mapped(outputs, lambda tensor: tensor.cpu())
        return kept(outputs) if self.setting.mode == "graph" else outputs

    def predict(self, *args: Any) -> Any:
        with self.explained_errors():
            return self.own(self.call(*kept(self.prepare(args))))

    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        """Also what the eager module computes in fp32, in plain layout and with the default backend.

        Its memory format is changed, so nothing can be run after it.
        """
        if self.setting.bf16_method == "cast":
            return Unavailable("the model was cast to bf16, and none in fp32 is left to compare it with")
        is_bf16 = self.setting.precision == "bf16"
        if is_bf16 and self.workload.heads is not None:
            return Unavailable("rounding to bf16 changes which detections there are")
        try:
            return self._outputs(args, is_bf16=is_bf16)
        except Exception as error:  # a model may compute under autocast only, or have operators of its own
            if not is_bf16:
                raise
            return Unavailable(f"the model cannot be computed in fp32 too: {first_line(error)}")

    def _outputs(self, args: tuple[Any, ...], *, is_bf16: bool) -> RawOutputs:
        import torch

        structure, nested = flatten(kept(args))
        found = _arrays(self.own(self.call(*kept(args))))
        plain = rebuild(structure, [each.contiguous() if isinstance(each, torch.Tensor) else each for each in nested])
        model = self.model.to(memory_format=torch.contiguous_format)
        with switches.default_backend(), switches.fast_math(False):
            output, changed = model(*kept(plain)), slightly_changed(flatten(plain)[1])
            names, expected = flatten(output)[0], _arrays(output)
            if is_bf16:
                with rounded_to("bf16", model):
                    return RawOutputs(found, (), names, expected, rounded=_arrays(model(*kept(plain))))
            other = _arrays(model(*rebuild(structure, changed))) if changed is not None else ()
        return RawOutputs(found, (), names, expected, other)

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        try:
            yield
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise refusal(self.workload, self.setting, error, self.converted) from error

    def warnings(self) -> tuple[WarningMessage, ...]:
        names = _in_training(self.model, self._was_training)
        detail = f"{', '.join(names[:_NAMED])}{' …' if len(names) > _NAMED else ''} in training mode after a pass"
        return (*self.notes, *([warning_for(WarningCode.NOT_REPEATABLE, detail=detail)] if names else ()))

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        if self.workload.count is None:
            return ()
        with autocast(self.setting):
            return tuple(self.workload.count(self.model, Inputs(kept(args), items)))

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        return digest(lambda: self.call(*args), self.device)

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
            with autocast(self.setting):
                return self._eager(*args)

        plan = Plan(
            model=self.module or self.model,
            eager=None if self.module is not None else eager,
            intercepts=self.setting.mode not in COMPILING or follows_compiled_code(),
            budget=budget if replay else None,
            asked=arithmetic_of(self.setting),
            phases=phases,
            device="cpu" if self.device is None else self.device.kind,
            synchronize=(lambda: None) if self.device is None else self.device.synchronize,
        )
        self._recording = record_pass(lambda: self.call(*args), plan)
        return self._recording

    def _judged(self, recording: Recording, canary: Canary | None) -> Evidence:
        from modelzoo.evidence.attribution import attribute_recording
        from modelzoo.evidence.verdict import judge_attributed

        setting = self.setting
        is_compiled = setting.mode in COMPILING
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


_NAMED = 3
"""Modules in training mode that a warning names."""


def _in_training(model: Any, but: Collection[str] = ()) -> list[str]:
    """The modules without parts that are in training mode, except ``but``: ``drop (Dropout)``."""
    modules = [(name, each) for name, each in model.named_modules() if each.training and not list(each.children())]
    found = [f"{name} ({type(each).__name__})" if name else type(each).__name__ for name, each in modules]
    return [each for each in found if each not in but]


def build(
    workload: Workload,
    model: Any,
    inputs: Inputs,
    setting: Setting,
    calibration: Sequence[Inputs] = (),
    converted: Mapping[str, float] | None = None,
    device: TorchDevice | None = None,
    notes: tuple[WarningMessage, ...] = (),
) -> TorchModel:
    """Make ``model`` executable under ``setting``, whose bf16 method must be decided; call it inside ``applied``.

    Args:
        workload: its declaration.
        model: in eval mode.
        inputs: the batch that is measured.
        setting: how it is run.
        calibration: batches from which a static recipe takes the ranges.
        converted: types from which weights of ``model`` were converted to fp32; the inputs then are, too.
        device: what computes it; ``None`` for the CPU.
        notes: what loading the model has shown.

    Raises:
        UsageError: the model cannot run this way, for example because an operator has no bf16 kernel.
        EnvironmentProblem: this torch or machine does not support the mode.
    """
    import torch

    model = model.to(setting.device)
    graph: GraphedModel | None = None
    dtype = dtype_of(setting) if setting.bf16_method == "cast" else torch.float32 if converted else None

    def move(tensor: Any) -> Any:
        tensor = tensor.to(setting.device, dtype if tensor.is_floating_point() else None)
        return _channels_last(tensor) if setting.channels_last else tensor

    def prepare(args: tuple[Any, ...]) -> tuple[Any, ...]:
        moved: tuple[Any, ...] = mapped(args, move)
        return moved if graph is None else graph.load(moved)

    if setting.bf16_method == "cast":
        model = cast_model(model, dtype)
    if setting.recipe is not None:
        batches = [in_fp32(each.args) if converted else each.args for each in calibration]
        with refusing_recipe(workload, setting.recipe):
            model = quantized(model, setting.recipe, batches)
    if setting.channels_last:
        model._apply(_channels_last)

    module = model
    if setting.linear == "onednn":
        from modelzoo.engines.torch.linear import with_onednn_linear

        try:
            module = with_onednn_linear(model)
        except ValueError as error:
            raise UsageError(f"{workload.name} with linear=onednn: {error}; leave linear out") from None
    run: Callable[..., Any] = module
    compilation: Compilation | None = None
    if setting.mode == "graph":
        with _refusing(workload, setting):
            graph, compilation = captured(module, prepare(inputs.args), setting)
        run = graph
    elif setting.mode != "eager":
        with _refusing(workload, setting):
            run, compilation = compiled(workload, module, kept(prepare(inputs.args)), setting)
        if calibration:
            compilation = replace(compilation, calibration=inputs_digest([each.args for each in calibration]))

    def call_autocast(*args: Any) -> Any:
        with autocast(setting):
            return run(*args)

    observed = module if setting.mode == "eager" else None
    call = call_autocast if setting.bf16_method == "autocast" and graph is None else run
    return TorchModel(workload, setting, model, observed, call, prepare, compilation, converted or {}, device, notes)


@contextmanager
def refusing_recipe(workload: Workload, recipe: str) -> Iterator[None]:
    """Turn what quantizing raises into ``UsageError``, but not that memory is exhausted.

    Only ``static`` exports the model, which raises errors of many types.
    """
    try:
        yield
    except NothingToQuantizeError as error:
        raise UsageError(f"{workload.name} with int8={recipe}: {error}; choose another precision") from None
    except Exception as error:
        if recipe != STATIC or isinstance(error, MemoryError) or device_problem(error, "cpu") is not None:
            raise
        said = f"cannot be quantized by int8={recipe}: {_reason(error, comes_first=True)}"
        raise UsageError(f"{workload.name} {said}; use another --recipe") from error


def _arrays(value: Any) -> tuple[Any, ...]:
    import torch

    return tuple(torch.as_tensor(each).float().cpu().numpy() for each in flatten(value)[1])


def refusal(
    workload: Workload, setting: Setting, error: Exception, converted: Mapping[str, float] | None = None
) -> ModelzooError:
    """Turn an error that torch raised for an unsupported operator, or for its device, into one line.

    Args:
        converted: types from which weights were converted to fp32, which forward may still expect.
    """
    problem = device_problem(error, setting.device)
    if problem is not None:
        return problem
    # TorchScript's and inductor's errors end with the reason; those of a device and of torch.export begin with it.
    is_capture = setting.mode == "graph"
    reason = _reason(error, comes_first=is_capture or setting.mode == AOT)
    place = own_place(error)
    # Directories in which torch compiles, and whose path a shell would divide.
    directories = (os.environ.get(INDUCTOR_CACHE, ""), tempfile.gettempdir())
    unquoted = [path for path in directories if path and shlex.quote(path) != path]
    advice = "use --mode eager or compile" if is_capture else "choose another --bf16 method or --mode"
    if "does not require grad" in str(error) or "nference tensor" in str(error):
        advice = (
            "models are called in inference mode, where not even torch.enable_grad records: compute gradients in "
            "forward within torch.inference_mode(False) and torch.enable_grad(), from clones of the inputs"
        )
    elif place and setting.precision == "fp32" and setting.mode == "eager":
        advice = f"correct {place}"
    elif "C++ compile error" in str(error) and unquoted:
        advice = (
            f"torch gives the compiler the path {unquoted[0]!r} without quotation marks: set TMPDIR, and "
            f"{INDUCTOR_CACHE} if you use it, to directories without spaces or other special characters"
        )
    if converted:
        advice = (
            f"its weights were converted from {', '.join(converted)} to fp32: build it in fp32, and do not convert "
        )
        advice += "to another type in forward"
    return UsageError(f"{workload.name} cannot run with {setting.label}: {reason}; {advice}")


def _reason(error: Exception, *, comes_first: bool) -> str:
    """The line of an error's message that says why."""
    said = str(error).partition(DYNAMO_ADVICE)[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = first_line(error) if comes_first else lines[-1] if lines else type(error).__name__
    return textwrap.shorten(reason, LONGEST_REASON, placeholder=" …")


@contextmanager
def _refusing(workload: Workload, setting: Setting) -> Iterator[None]:
    """Turn whatever a compiler raises into a refusal; they raise errors of many types."""
    try:
        yield
    except (EnvironmentProblem, UsageError):
        raise
    except Exception as error:
        raise refusal(workload, setting, error) from error


def _channels_last(tensor: Any) -> Any:
    """A batch of pictures or videos, or the weights of their convolutions, with channels last; others as they are."""
    import torch

    if tensor.dim() not in (4, 5):
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d)

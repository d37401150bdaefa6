"""Turn a model and a setting into a callable, the way an inference server would call it.

Timing, audit and validation all use this code, so what is validated is what was timed.
"""

from __future__ import annotations

import os
import shlex
import tempfile
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from modelzoo.engines.export.source import flatten, in_fp32, rebuild, slightly_changed
from modelzoo.engines.protocol import RawOutputs
from modelzoo.engines.torch import switches
from modelzoo.engines.torch.compilation import AOT, INDUCTOR_CACHE, GraphedModel, captured, compiled, kept
from modelzoo.engines.torch.devices import device_problem
from modelzoo.engines.torch.quantization import STATIC, NothingToQuantizeError, quantized
from modelzoo.engines.torch.switches import autocast, cast_model, dtype_of, mapped
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, first_line, own_place
from modelzoo.evidence.rounded import rounded_to
from modelzoo.frozen import replace
from modelzoo.records.run_report import Compilation
from modelzoo.setting import Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for
from modelzoo.workload.declaration import Inputs, Workload, inputs_digest

LONGEST_REASON = 200
"""Characters of torch's reason why a model cannot run; an expression in it can be longer than a screen."""
DYNAMO_ADVICE = "Set TORCHDYNAMO_VERBOSE"
"""How dynamo's advice to its own developers begins, behind the reason."""


class Executable(msgspec.Struct, frozen=True):
    """A model that is ready to run under a setting.

    Attributes:
        model: the eager module, on its device, in its data type and memory format, as torch computes it.
        module: what ``call`` runs in eager mode, where it can be observed layer by layer; ``None`` otherwise.
        call: maps prepared positional arguments to the outputs. It enters autocast on each call, as servers do.
        prepare: moves and converts inputs the way the model was.
        compilation: what compiling, tracing or capturing took; ``None`` in eager mode.
        own: returns outputs on the host that the next call does not overwrite.
        converted: types from which weights were converted to fp32 (``modelzoo.workload.weights.Loaded``).
        was_training: the modules of ``model`` that are in training mode from the beginning.
    """

    model: Any
    module: Any
    call: Callable[..., Any]
    prepare: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    compilation: Compilation | None
    own: Callable[[Any], Any]
    converted: Mapping[str, float]
    was_training: Sequence[str]

    def warnings(self) -> tuple[WarningMessage, ...]:
        """That modules have gone into training mode, if they have."""
        names = _in_training(self.model, self.was_training)
        detail = f"{', '.join(names[:_NAMED])}{' …' if len(names) > _NAMED else ''} in training mode after a pass"
        return (warning_for(WarningCode.NOT_REPEATABLE, detail=detail),) if names else ()


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
) -> Executable:
    """Make ``model`` executable under ``setting``, whose bf16 method must be decided; call it inside ``applied``.

    Args:
        workload: its declaration.
        model: in eval mode.
        inputs: the batch that is measured.
        setting: how it is run.
        calibration: batches from which a static recipe takes the ranges.
        converted: types from which weights of ``model`` were converted to fp32; the inputs then are, too.

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
    return Executable(model, observed, call, prepare, compilation, _own(setting), converted or {}, _in_training(model))


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


def outputs(executable: Executable, args: tuple[Any, ...], precision: str = "fp32") -> RawOutputs:
    """Return what ``executable`` computes from prepared ``args``, and what its eager module does in fp32, in plain
    layout and with the default backend; with every number rounded, too, if ``precision`` is bf16.

    The memory format of the module is changed, so nothing can be run after it.
    """
    import torch

    structure, nested = flatten(kept(args))
    found = executable.own(executable.call(*kept(args)))
    plain = rebuild(structure, [each.contiguous() if isinstance(each, torch.Tensor) else each for each in nested])
    model = executable.model.to(memory_format=torch.contiguous_format)
    with switches.default_backend(), switches.fast_math(False):
        expected, changed = model(*kept(plain)), slightly_changed(flatten(plain)[1])
        names, sides = flatten(expected)[0], [_arrays(found), _arrays(expected)]
        if precision == "bf16":
            with rounded_to("bf16", model):
                return RawOutputs(sides[0], (), names, sides[1], rounded=_arrays(model(*kept(plain))))
        other = _arrays(model(*rebuild(structure, changed))) if changed is not None else ()
    return RawOutputs(sides[0], (), names, sides[1], other)


def _arrays(value: Any) -> tuple[Any, ...]:
    import torch

    return tuple(torch.as_tensor(each).float().cpu().numpy() for each in flatten(value)[1])


def weight_bytes(module: Any, *, with_tables: bool = False) -> int | None:
    """Bytes of the parameters that each pass reads whole; ``None`` if some are kept in a form of which it is not known.

    With ``with_tables`` also those of embeddings, of which a pass reads some rows.

    Quantized layers of ``torch.ao.nn`` have methods in place of parameters, and others hold buffers.
    """
    import torch

    layers = [each for each in module.modules() if with_tables or not isinstance(each, torch.nn.Embedding)]
    read = {id(each): each for layer in layers for each in (*layer._parameters.values(), *layer._buffers.values())}
    # Those of a quantized layer are returned by methods.
    packed = [getattr(layer, name, None) for layer in layers for name in ("weight", "bias")]
    parts = [part() for part in packed if callable(part)]
    sizes = [_bytes(each) for each in (*read.values(), *parts) if each is not None]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _bytes(tensor: Any) -> int | None:
    """Size of a tensor as it is stored; subclasses that wrap others (torchao's) say which, or it is not known."""
    import torch

    data = tensor.data
    if hasattr(data, "__tensor_flatten__"):
        sizes = [_bytes(getattr(data, name)) for name in data.__tensor_flatten__()[0]]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    return int(data.numel() * data.element_size()) if type(data) is torch.Tensor else None


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


def _own(setting: Setting) -> Callable[[Any], Any]:
    """What makes outputs the caller's: a copy on the host, or of what a graph overwrites."""
    if setting.device != "cpu":
        return lambda outputs: mapped(outputs, lambda tensor: tensor.cpu())
    return kept if setting.mode == "graph" else lambda outputs: outputs

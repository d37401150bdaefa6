"""Turn a model and a setting into one callable, as a server would call it.

The same code serves the timing, the audit and the validation, so that what is judged is what was timed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Callable

from modelzoo.engines.torch import detection_autocast
from modelzoo.engines.torch.precision import autocast, cast, choose_bf16_method, fast_math
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting
from modelzoo.workload.declaration import Inputs, Workload


@dataclass(frozen=True)
class Executable:
    """A model under a setting.

    ``model`` is the eager module (moved, cast, in its memory format), ``call`` maps the model's
    positional arguments to its outputs, with autocast entered in each call as servers do.
    ``compile_seconds`` is what compiling or tracing took, ``None`` for eager. ``prepare`` moves and casts
    inputs the way the model was.
    """

    model: Any
    call: Callable[..., Any]
    prepare: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    bf16_method: str | None
    compile_seconds: float | None


@contextmanager
def applied(setting: Setting, bf16_method: str | None) -> Iterator[tuple[str, ...]]:
    """Process-wide switches of a setting: backend and fast math. Yields their names; undoes them."""
    import torch

    with ExitStack() as stack:
        switches: list[str] = []
        if setting.backend != "auto":
            on = setting.backend == "onednn"
            if on and not torch.backends.mkldnn.is_available():
                raise EnvironmentProblem(f"--backend onednn: torch {torch.__version__} was built without oneDNN")
            # Not ``mkldnn.flags``: it also sets the TF32 and precision switches, which fast_math owns.
            stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
            torch._C._set_mkldnn_enabled(on)
            switches.append(f"torch.backends.mkldnn.enabled={on}")
        on = setting.precision == "bf16" and bf16_method == "fastmath"
        switches += stack.enter_context(fast_math(on))
        yield tuple(switches)


def resolve_bf16_method(setting: Setting) -> str | None:
    """How bf16 is had: the way that was asked for, or the right one for this backend."""
    if setting.precision != "bf16":
        return None
    return setting.bf16_method or choose_bf16_method(setting.device, setting.backend)


def require_mode(mode: str) -> None:
    """Raise ``EnvironmentProblem`` where this torch or machine cannot compile at all."""
    import shutil

    import torch

    if mode != "compile":
        return
    if not hasattr(torch, "compile"):
        raise EnvironmentProblem(
            f"--mode compile needs torch 2.1 or newer, this is {torch.__version__}; use --mode script"
        )
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise EnvironmentProblem("--mode compile needs a C++ compiler: install g++, or use --mode script")


def build(workload: Workload, model: Any, inputs: Inputs, setting: Setting, bf16_method: str | None) -> Executable:
    """Make ``model`` executable under ``setting``; run inside ``applied``.

    Raises:
        UsageError: the model cannot be run that way (its operators have no kernels for it, say).
        EnvironmentProblem: this torch or machine lacks the mode.
    """
    import torch

    model = model.to(setting.device)
    is_cast = setting.precision == "bf16" and bf16_method == "cast"
    if is_cast:
        model = model.to(torch.bfloat16)
    if setting.channels_last:
        model = model.to(memory_format=torch.channels_last)

    def prepare(args: tuple[Any, ...]) -> tuple[Any, ...]:
        moved = _moved(args, setting)
        return cast(moved) if is_cast else moved

    uses_autocast = setting.precision == "bf16" and bf16_method == "autocast"
    if uses_autocast and setting.device == "cpu":
        detection_autocast.cover()
    args = prepare(inputs.args)
    run, seconds = _compiled(workload, model, args, setting, bf16_method)

    def call_autocast(*args: Any) -> Any:
        with autocast(setting, bf16_method):
            return run(*args)

    return Executable(model, call_autocast if uses_autocast else run, prepare, bf16_method, seconds)


def first_call(executable: Executable, args: tuple[Any, ...], workload: Workload, setting: Setting) -> None:
    """Run once outside the timing only to turn a refusal of torch into one line.

    Raises:
        UsageError: torch has no kernel for an operator of this model in this setting.
    """
    try:
        executable.call(*args)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise refusal(workload, setting, executable.bf16_method, error) from error


def refusal(workload: Workload, setting: Setting, bf16_method: str | None, error: Exception) -> UsageError:
    """The one line for an operator that torch refuses to run."""
    how = setting.label + (f" by {bf16_method}" if bf16_method and not setting.bf16_method else "")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return UsageError(
        f"{workload.name} cannot run with {how}: {lines[-1] if lines else type(error).__name__}; "
        "choose another --bf16 way or --mode"
    )


def _moved(value: Any, setting: Setting) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        value = value.to(setting.device)
        if setting.channels_last and value.dim() == 4:
            value = value.contiguous(memory_format=torch.channels_last)
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, setting) for item in value)
    return value


def _compiled(
    workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting, bf16_method: str | None
) -> tuple[Callable[..., Any], float | None]:
    if setting.mode == "eager":
        return model, None
    started = perf_counter()
    try:
        run = _inductor(model) if setting.mode == "compile" else _script(workload, model, args, setting, bf16_method)
        # Two calls: the first compiles (inductor) or profiles (TorchScript), the second specializes.
        for _ in range(2):
            with autocast(setting, bf16_method):
                run(*args)
    except (EnvironmentProblem, UsageError):
        raise
    except Exception as error:  # compilers raise what they like
        raise refusal(workload, setting, bf16_method, error) from error
    return run, perf_counter() - started


def _inductor(model: Any) -> Callable[..., Any]:
    require_mode("compile")
    import torch
    import torch._inductor.config as config

    config.freezing = True
    return torch.compile(model)


def _script(
    workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting, bf16_method: str | None
) -> Callable[..., Any]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns of every Python branch, freezing of each pass
        if workload.script == "script":
            if bf16_method == "autocast":
                raise UsageError(
                    f"--mode script of {workload.name} is compiled from source, where autocast does not "
                    "reach; use --bf16=fastmath, or --mode eager"
                )
            graph = torch.jit.script(model)
        elif bf16_method == "autocast":
            # A cached cast would be traced as a constant of the first call.
            with torch.autocast(setting.device.split(":")[0], dtype=torch.bfloat16, cache_enabled=False):
                graph = torch.jit.trace(model, args, strict=False, check_trace=False)
        else:
            graph = torch.jit.trace(model, args, strict=False, check_trace=False)
        return torch.jit.optimize_for_inference(torch.jit.freeze(graph))

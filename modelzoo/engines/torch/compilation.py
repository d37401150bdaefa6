"""Compile or capture a model: ``--mode compile``, ``script`` and ``graph``."""

from __future__ import annotations

import shutil
import warnings
from typing import Any, Callable

from modelzoo.engines.torch.graphs import GraphedModel
from modelzoo.engines.torch.precision import autocast
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.setting import Setting
from modelzoo.workload.declaration import Workload

WARM_UP_CALLS = 2
"""The first call compiles (inductor) or profiles (TorchScript); the second one specializes."""


def require_mode(setting: Setting) -> None:
    """Check that this torch, this machine and the device have the mode of ``setting``.

    Raises:
        EnvironmentProblem: this torch or machine cannot compile at all.
        UsageError: the device has no such mode.
    """
    import torch

    if setting.mode == "graph" and setting.device.partition(":")[0] != "cuda":
        raise UsageError(
            f"--mode graph replays CUDA graphs, which {setting.device} does not have; use --mode compile, or "
            "--device cuda"
        )
    if setting.mode != "compile":
        return
    if not hasattr(torch, "compile"):
        raise EnvironmentProblem(
            f"--mode compile needs torch 2.1 or newer, this is {torch.__version__}; use --mode script"
        )
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise EnvironmentProblem("--mode compile needs a C++ compiler: install g++, or use --mode script")


def compiled(workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting) -> Callable[..., Any]:
    """Compile or trace ``model`` as ``setting.mode`` says, and call it until it is specialized to ``args``.

    Raises:
        EnvironmentProblem: this torch or this machine cannot compile.
        UsageError: the mode does not support the bf16 method.
        Exception: whatever the compiler raises for a model that it does not support.
    """
    run = _inductor(model, setting) if setting.mode == "compile" else _script(workload, model, args, setting)
    for _ in range(WARM_UP_CALLS):
        with autocast(setting):
            run(*args)
    return run


def captured(model: Any, args: tuple[Any, ...], setting: Setting) -> GraphedModel:
    """Capture one call of ``model`` on ``args``, as ``setting.mode`` ``graph`` says.

    Raises:
        UsageError: the device has no graphs.
        RuntimeError: the model cannot be captured.
    """
    require_mode(setting)

    def run(*given: Any) -> Any:
        with autocast(setting, cached=False):
            return model(*given)

    return GraphedModel(run, args)


def _inductor(model: Any, setting: Setting) -> Callable[..., Any]:
    require_mode(setting)
    import torch
    import torch._inductor.config as config

    config.freezing = True
    compiled: Callable[..., Any] = torch.compile(model)
    return compiled


def _script(workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting) -> Callable[..., Any]:
    import torch

    uses_autocast = setting.bf16_method == "autocast"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns about every Python branch, freezing about each pass
        if workload.script == "script":
            if uses_autocast:
                raise UsageError(
                    f"--mode script compiles {workload.name} from source, which autocast does not support; "
                    "use --bf16=fastmath, or --mode eager"
                )
            graph = torch.jit.script(model)
        elif uses_autocast:
            # Tracing would record a cached cast as a constant of the first call.
            with autocast(setting, cached=False):
                graph = torch.jit.trace(model, args, strict=False, check_trace=False)
        else:
            graph = torch.jit.trace(model, args, strict=False, check_trace=False)
        frozen: Callable[..., Any] = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
        return frozen

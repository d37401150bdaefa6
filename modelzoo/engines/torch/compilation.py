"""Compile or capture a model, for every ``--mode`` but ``eager``."""

from __future__ import annotations

import copy
import getpass
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable

from modelzoo.engines.torch.graphs import GraphedModel
from modelzoo.engines.torch.precision import autocast
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine.directories import make_own
from modelzoo.setting import Setting
from modelzoo.workload.declaration import Workload

WARM_UP_CALLS = 2
"""The first call compiles (inductor) or profiles (TorchScript); the second one specializes."""
INDUCTOR: dict[str, dict[str, Any]] = {
    "compile": {},
    # CUDA graphs, which plain "max-autotune" adds, do not exist on CPUs.
    "max-autotune": {"mode": "max-autotune-no-cudagraphs"},
    "cpp-wrapper": {"options": {"cpp_wrapper": True}},
}
"""What ``torch.compile`` is given, by mode."""
AOT = "aot"
FIRST_TORCH = {"compile": "2.1", "max-autotune": "2.1", "cpp-wrapper": "2.3", AOT: "2.6"}
"""The first torch with each mode."""
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"


def require_mode(setting: Setting) -> None:
    """Check that this torch, this machine and the device have the mode of ``setting``.

    Raises:
        EnvironmentProblem: this torch or machine cannot compile at all.
        UsageError: the device has no such mode.
    """
    import torch

    mode = setting.mode
    if mode == "graph" and setting.device.partition(":")[0] != "cuda":
        raise UsageError(
            f"--mode graph replays CUDA graphs, which {setting.device} does not have; use --mode compile, or "
            "--device cuda"
        )
    if mode not in FIRST_TORCH:
        return
    if not _is_supported(mode):
        raise EnvironmentProblem(
            f"--mode {mode} needs torch {FIRST_TORCH[mode]} or newer, this is {torch.__version__}; use --mode script"
        )
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise EnvironmentProblem(f"--mode {mode} needs a C++ compiler: install g++, or use --mode script")
    _own_inductor_cache()


def _own_inductor_cache() -> None:
    """Check that nobody else can write to inductor's default cache, from which it loads pickles and libraries.

    Its name can be predicted (``default_cache_dir`` in ``torch/_inductor/runtime/cache_dir_utils.py``). A cache that
    the user chose is the user's decision.
    """
    if INDUCTOR_CACHE in os.environ:
        return
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return  # without a name, torch has no default cache either
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    make_own(Path(tempfile.gettempdir()) / f"torchinductor_{name}", INDUCTOR_CACHE)


def _is_supported(mode: str) -> bool:
    import torch

    if not hasattr(torch, "compile"):
        return False
    import torch._inductor

    if mode == AOT:
        return hasattr(torch._inductor, "aoti_compile_and_package")
    if mode == "max-autotune":
        return "max-autotune-no-cudagraphs" in torch._inductor.list_mode_options()
    return mode == "compile" or "cpp_wrapper" in torch._inductor.list_options()


def compiled(workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting) -> Callable[..., Any]:
    """Compile or trace ``model`` as ``setting.mode`` says, and call it until it is specialized to ``args``.

    Raises:
        EnvironmentProblem: this torch or this machine cannot compile.
        UsageError: the mode does not support the bf16 method.
        Exception: whatever the compiler raises for a model that it does not support.
    """
    require_mode(setting)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers warn about each other, tracing about every Python branch
        if setting.mode in INDUCTOR:
            run = _inductor(model, setting)
        elif setting.mode == AOT:
            run = _ahead_of_time(model, args, setting)
        else:
            run = _script(workload, model, args, setting)
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
    import torch
    import torch._inductor.config as config

    config.freezing = True
    compiled: Callable[..., Any] = torch.compile(model, **INDUCTOR[setting.mode])
    return compiled


def _ahead_of_time(model: Any, args: tuple[Any, ...], setting: Setting) -> Callable[..., Any]:
    """Export the model for the shapes of ``args``, compile it to a shared library, and load that."""
    import torch
    import torch._inductor

    with torch.inference_mode(False), torch.no_grad(), autocast(setting):
        # Tensors that were made in inference mode cannot be exported; copies that are made outside of it can.
        plain, example = copy.deepcopy(model), copy.deepcopy(args)
        exported = torch.export.export(plain, example, strict=False)
        with tempfile.TemporaryDirectory(prefix="modelzoo-aot-") as directory:
            package = torch._inductor.aoti_compile_and_package(
                exported,
                package_path=str(Path(directory) / "model.pt2"),
                inductor_configs={"freezing": True},
            )
            loaded: Callable[..., Any] = torch._inductor.aoti_load_package(package)
    return loaded


def _script(workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting) -> Callable[..., Any]:
    import torch

    uses_autocast = setting.bf16_method == "autocast"
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

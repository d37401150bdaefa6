"""Compile or capture a model, for every ``--mode`` but ``eager``.

With ``--mode graph``, the kernels of one call are captured in a CUDA graph, and each call replays them. Replaying
issues all kernels at once, so a model that is bound by launching gains most. A graph reads its inputs from the tensors
that it was captured with and writes its outputs to the same tensors each time: ``load`` copies a batch into the inputs,
and whoever keeps outputs copies them (``kept``).
"""

from __future__ import annotations

import copy
import getpass
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from modelzoo.engines.torch.devices import select_device
from modelzoo.engines.torch.switches import autocast, mapped
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.files import make_own
from modelzoo.records.run_report import Compilation
from modelzoo.setting import Setting
from modelzoo.workload.declaration import Workload
from modelzoo.workload.nested import leaves

CALLS_BEFORE_CAPTURE = 3
"""Calls on a side stream before the capture, as torch's documentation of CUDA graphs has them: libraries allocate and
select kernels in the first ones, which a capture does not allow."""


class GraphedModel:
    """A model whose calls replay a captured graph.

    Args:
        run: one call, with its own autocast.
        args: what it is captured with: nested lists, tuples and dicts of tensors on the device. It keeps copies.

    Raises:
        RuntimeError: the model does something that cannot be captured, such as reading a value on the host.
    """

    def __init__(self, run: Callable[..., Any], args: tuple[Any, ...]) -> None:
        import torch

        self.args: tuple[Any, ...] = kept(args)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(CALLS_BEFORE_CAPTURE):
                run(*self.args)
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = run(*self.args)

    def __call__(self, *args: Any) -> Any:
        """Replay the graph on what was loaded last; return its output, which the next call overwrites."""
        self._graph.replay()
        return self._output

    def load(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy ``args`` into the tensors that the graph reads, and return those.

        Raises:
            UsageError: the shapes are not those that were captured.
        """
        import torch

        for given, item in zip(leaves(args), leaves(self.args)):
            if not isinstance(item, torch.Tensor):
                continue
            if given.shape != item.shape or given.dtype != item.dtype:
                raise UsageError(
                    f"--mode graph: the graph was captured with a tensor of shape {tuple(item.shape)}, not "
                    f"{tuple(given.shape)}; use another --mode for inputs of several shapes"
                )
            item.copy_(given)
        return self.args


def kept(value: Any) -> Any:
    """A copy of the tensors in ``value``, nested as they are."""
    return mapped(value, lambda tensor: tensor.clone())


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
COMPILING = (*INDUCTOR, AOT)
"""The modes in which inductor compiles."""
INDUCTOR_CACHE = "TORCHINDUCTOR_CACHE_DIR"
COMPILED = ("*.so", "*.cubin", "*.hsaco")
"""What compilers leave there for CPUs, NVIDIA's and AMD's devices."""
WARM_POOL = "TORCH_WARM_POOL"
"""Unless it is ``0``, inductor starts processes before it has anything to compile (``maybe_warm_pool`` in
``torch/_inductor/async_compile.py``)."""


def require_mode(setting: Setting) -> None:
    """Check that this machine and the device have the mode of ``setting``.

    Raises:
        EnvironmentProblem: this machine cannot compile at all, or others may write to inductor's cache.
        UsageError: the device has no such mode.
    """
    mode = setting.mode
    if mode == "graph" and setting.device.partition(":")[0] != "cuda":
        raise UsageError(
            f"--mode graph replays CUDA graphs, which {setting.device} does not have; use --mode compile, or "
            "--device cuda"
        )
    if mode not in COMPILING:
        return
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        raise EnvironmentProblem(f"--mode {mode} needs a C++ compiler: install g++, or use --mode script")
    if INDUCTOR_CACHE not in os.environ:  # a cache that the user chose is the user's decision
        # Nobody else may write to the default one, from which inductor loads pickles and libraries, and whose name can
        # be predicted (default_cache_dir in torch/_inductor/runtime/cache_dir_utils.py).
        name = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
        make_own(Path(tempfile.gettempdir()) / f"torchinductor_{name}", INDUCTOR_CACHE, with_group=True)


def compiled(
    workload: Workload, model: Any, args: tuple[Any, ...], setting: Setting
) -> tuple[Callable[..., Any], Compilation]:
    """Compile or trace ``model`` as ``setting.mode`` says, and call it until it is specialized to ``args``.

    Returns:
        The compiled model, and what that took.

    Raises:
        UsageError: the mode does not support the bf16 method.
        Exception: whatever the compiler raises for a model that it does not support.
    """
    device = select_device(setting.device)
    cached = _cached_libraries() if setting.mode in COMPILING else None
    started, first_answer = perf_counter(), None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # compilers warn about each other, tracing about every Python branch
        if setting.mode in INDUCTOR:
            run = inductor(model, setting)
        elif setting.mode == AOT:
            run = _ahead_of_time(model, args, setting)
        else:
            run = _script(workload, model, args, setting)
        for _ in range(WARM_UP_CALLS):
            with autocast(setting):
                run(*args)
            if device is not None:
                device.synchronize()
            first_answer = first_answer or perf_counter() - started
    seconds = perf_counter() - started
    if inductor_pool := sys.modules.get("torch._inductor.async_compile"):  # only if it is loaded
        # It keeps the processes that it has started for the kernels of a GPU; nothing else is compiled.
        inductor_pool.shutdown_compile_workers()
    return run, Compilation(seconds, first_answer, None if cached is None else len(_cached_libraries() - cached))


def _cached_libraries() -> set[tuple[str, int]]:
    """The shared libraries in inductor's cache, with the times of their last changes in nanoseconds.

    torch has no counter for them: it keeps no graphs if parameters are frozen, and compiles C++ in other processes.
    """
    from torch._inductor.codecache import cache_dir

    found = (path for pattern in COMPILED for path in Path(cache_dir()).rglob(pattern))
    return {(str(path), path.stat().st_mtime_ns) for path in found}


def captured(model: Any, args: tuple[Any, ...], setting: Setting) -> tuple[GraphedModel, Compilation]:
    """Capture one call of ``model`` on ``args``, as ``setting.mode`` ``graph`` says; return it and what that took.

    Raises:
        RuntimeError: the model cannot be captured.
    """

    def run(*given: Any) -> Any:
        with autocast(setting, cached=False):
            return model(*given)

    started = perf_counter()
    graphed = GraphedModel(run, args)
    return graphed, Compilation(perf_counter() - started)


def inductor(model: Any, setting: Setting) -> Callable[..., Any]:
    """Return what compiles ``model`` when it is first called, with its parameters as constants."""
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

    if workload.script == "script":
        if setting.bf16_method == "autocast":
            raise UsageError(
                f"--mode script compiles {workload.name} from source, which autocast does not support; "
                "use --bf16=fastmath, or --mode eager"
            )
        graph = torch.jit.script(model)
    else:
        # Tracing would record a cached cast as a constant of the first call.
        with autocast(setting, cached=False):
            graph = torch.jit.trace(model, args, strict=False, check_trace=False)
    frozen: Callable[..., Any] = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
    return frozen

"""How a precision is asked for: torch's process-wide switches, autocast, and casting tensors.

A switch only asks for a precision. Which one the kernels really used is measured by ``modelzoo.evidence``.

``fastmath`` keeps fp32 tensors and lets oneDNN's kernels round internally. ``autocast`` converts operands as
``torch.autocast`` does. ``cast`` converts the whole model.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from modelzoo.engines.torch.quantization import engine_of
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.machine.installation import installed_release
from modelzoo.records.run_report import ChangedSwitch, SwitchKind
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload import nested


@contextmanager
def applied(setting: Setting) -> Iterator[tuple[str, ...]]:
    """Apply the process-wide switches of ``setting``, and restore them on exit.

    Yields:
        The switches that were set, as text for the record.

    Raises:
        EnvironmentProblem: the backend is not available.
    """
    import torch

    with ExitStack() as stack:
        names: list[str] = []
        if setting.backend != "auto":
            names.append(_select_backend(setting.backend, stack))
        names += stack.enter_context(fast_math(setting.bf16_method == "fastmath", tf32=setting.precision == "tf32"))
        engine = engine_of(setting.recipe)
        if engine is not None:
            _switch(stack, torch.backends.quantized, "engine", engine)
            names.append(f"torch.backends.quantized.engine={engine}")
        yield tuple(names)


def _select_backend(backend: str, stack: ExitStack) -> str:
    import torch

    on = backend == "onednn"
    if on and not torch.backends.mkldnn.is_available():
        raise EnvironmentProblem(f"--backend onednn: torch {torch.__version__} was built without oneDNN")
    # ``mkldnn.flags`` would set the precision switches as well, which belong to fast_math.
    stack.callback(torch._C._set_mkldnn_enabled, torch._C._get_mkldnn_enabled())
    torch._C._set_mkldnn_enabled(on)
    return f"torch.backends.mkldnn.enabled={on}"


def require_linear(setting: Setting) -> None:
    """Check that oneDNN can compute the Linear layers of ``setting`` if it asks for that.

    Raises:
        UsageError: it does so in any case, or cannot.
        EnvironmentProblem: this torch was built without oneDNN.
    """
    import torch

    if setting.linear != "onednn":
        return
    if setting.device != "cpu" or setting.backend == "blas":
        what = f"--device {setting.device}" if setting.device != "cpu" else "--backend blas"
        raise UsageError(f"--linear onednn and {what} contradict each other; leave one out")
    if setting.mode == "aot":
        raise UsageError("--linear onednn: --mode aot calls oneDNN for them by itself; leave it out")
    if setting.precision != "fp32" and setting.bf16_method != "fastmath":
        raise UsageError(
            "--linear onednn packs weights in fp32, and torch calls oneDNN for narrower ones by itself; leave it out, "
            "or use fp32 or --bf16=fastmath"
        )
    if not torch.backends.mkldnn.is_available():
        raise EnvironmentProblem(f"--linear onednn: torch {torch.__version__} was built without oneDNN")


@contextmanager
def default_backend() -> Iterator[None]:
    """Inside ``applied``, have torch choose the kernels again as it does by default: oneDNN's if it has them, and if
    no variable lets those round fp32 operands."""
    import torch

    with ExitStack() as stack:
        if torch.backends.mkldnn.is_available():
            _select_backend("blas" if MATH_MODE_VARIABLE in os.environ else "onednn", stack)
        yield


@contextmanager
def fast_math(on: bool, *, tf32: bool = False) -> Iterator[tuple[str, ...]]:
    """Set the internal precision of fp32 operators, and restore it on exit.

    oneDNN may round to bf16 if ``on``, and CUDA's libraries may round to TF32 if ``tf32``; everything else is set to
    plain fp32. For oneDNN, torch 2.9 and newer have ``fp32_precision``, older ones only
    ``set_float32_matmul_precision``; torch forbids mixing the two.

    Yields:
        The switches that were set, as text for the record: oneDNN's, and CUDA's if there is such a device.

    Raises:
        EnvironmentProblem: something else decides about TF32.
    """
    import torch

    with ExitStack() as stack:
        names = []
        if needs_math_mode_variable():  # first: what it sets decides about TF32 as well
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision(_HINTS[on])
            names.append(f"torch.set_float32_matmul_precision({_HINTS[on]})")
        found = _precision_switches(on, tf32, cuda=torch.cuda.is_available())
        for _, owner, attribute, wanted in found:
            _switch(stack, owner, attribute, wanted)
        for name, owner, attribute, wanted in found:
            if getattr(owner, attribute) != wanted:
                raise EnvironmentProblem(f"{name} cannot be set to {wanted}; unset the variables that decide about it")
        yield (*names, *(f"{name}={wanted}" for name, _, _, wanted in found))


_HINTS = {True: "medium", False: "highest"}
"""What fast math, or its absence, sets before torch 2.9."""


def _precision_switches(fast_math: bool, tf32: bool, *, cuda: bool) -> list[tuple[str, Any, str, object]]:
    """Name, owner, attribute and value of the switches of oneDNN and, if there is such a device, of CUDA.

    ``allow_tf32`` is used although torch 2.9 and newer also have ``fp32_precision``: inductor reads ``allow_tf32``,
    which raises if only ``fp32_precision`` has been set (https://github.com/pytorch/pytorch/issues/166387).
    """
    from torch import backends

    wanted = "bf16" if fast_math else "ieee"
    found: list[tuple[str, Any, str, object]] = [
        (f"torch.backends.mkldnn.{part}.fp32_precision", getattr(backends.mkldnn, part), "fp32_precision", wanted)
        for part in (() if needs_math_mode_variable() else ("conv", "matmul", "rnn"))
    ]
    if cuda:
        found.append(("torch.backends.cuda.matmul.allow_tf32", backends.cuda.matmul, "allow_tf32", tf32))
        found.append(("torch.backends.cudnn.allow_tf32", backends.cudnn, "allow_tf32", tf32))
    return found


def changed(setting: ResolvedSetting) -> tuple[ChangedSwitch, ...]:
    """Return the switches that are no longer as ``applied`` and ``TorchEngine.open`` set them, or as torch does."""
    import torch

    backends, is_fast = torch.backends, setting.bf16_method == "fastmath"
    found: list[tuple[SwitchKind, str, object, object]] = [
        ("threads", "torch.get_num_threads()", setting.threads, torch.get_num_threads()),
        ("precision", "torch.get_default_dtype()", torch.float32, torch.get_default_dtype()),
    ]
    precisions = _precision_switches(is_fast, setting.precision == "tf32", cuda=setting.device.startswith("cuda"))
    for name, owner, attribute, wanted in precisions:
        found.append(("precision", name, wanted, getattr(owner, attribute)))
    if needs_math_mode_variable():
        seen = torch.get_float32_matmul_precision()
        found.append(("precision", "torch.get_float32_matmul_precision()", _HINTS[is_fast], seen))
    deterministic = torch.are_deterministic_algorithms_enabled()
    found += [
        ("kernels", "torch.backends.mkldnn.enabled", setting.backend != "blas", backends.mkldnn.enabled),
        ("kernels", "torch.are_deterministic_algorithms_enabled()", False, deterministic),
        ("kernels", "flush-to-zero", False, flushes_subnormals(setting.threads)),
        ("kernels", "torch.backends.mkldnn.deterministic", False, backends.mkldnn.deterministic),
    ]
    return tuple(ChangedSwitch(kind, name, str(asked), str(seen)) for kind, name, asked, seen in found if asked != seen)


GRAIN_SIZE = 32768
"""Elements of an elementwise operator that torch gives to one thread at least (source: ``at::internal::GRAIN_SIZE`` in
aten/src/ATen/TensorIterator.h)."""


def flushes_subnormals(threads: int) -> bool:
    """Whether the CPU flushes subnormal numbers to zero in any of the ``threads`` of a parallel operator.

    A library that was built with -ffast-math turns that on in the thread that loads it, and in those that this thread
    creates later.
    """
    import torch

    subnormal = torch.full((threads * GRAIN_SIZE,), 1e-40, dtype=torch.float32)
    return bool((subnormal * 1.0 == 0).any())


def _switch(stack: ExitStack, owner: Any, name: str, value: object) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def needs_math_mode_variable() -> bool:
    """Whether this torch (before 2.9) has no ``fp32_precision``, so that only an environment variable changes oneDNN's
    math mode.

    Does not import torch.
    """
    return (0, 0) < installed_release("torch") < (2, 9)


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``function`` applied to its tensors.

    Args:
        value: a tensor, or containers of them as ``nested.mapped`` has them; anything else stays as it is.
        function: takes a tensor.
    """
    import torch

    return nested.mapped(value, lambda each: function(each) if isinstance(each, torch.Tensor) else each)


TF32_CAPABILITY = (8, 0)
"""The first CUDA devices with TF32 are those of compute capability 8.0 (Ampere)."""
FREQUENCIES = "inv_freq"
"""How the names of the buffers end in which transformers keeps the frequencies of rotary embeddings."""
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""torch's names of the data types that a model is converted to."""


def dtype_of(setting: Setting) -> Any:
    """The data type that operands are converted to; ``None`` in fp32 and tf32, whose operands are fp32."""
    import torch

    return getattr(torch, _DTYPES[setting.precision]) if setting.precision in _DTYPES else None


def autocast(setting: Setting, *, cached: bool = True) -> AbstractContextManager[Any]:
    """The context in which the model is called: autocast if that is the method, else an empty one.

    Args:
        cached: whether a tensor that is used twice is converted once. A trace or a graph must not record what is in
            the cache of its first call.
    """
    import torch

    if setting.bf16_method == "autocast":
        kind = setting.device.partition(":")[0]
        context: AbstractContextManager[Any] = torch.autocast(kind, dtype=dtype_of(setting), cache_enabled=cached)
        return context
    return nullcontext()


def cast_model(model: Any, dtype: Any) -> Any:
    """Convert ``model`` in place, but leave the frequencies of rotary embeddings, as transformers' ``from_pretrained``.

    Rounded to bf16 they are off by up to 0.4 %, and so is every position.
    """
    exact = [(each, name, each._buffers[name]) for each in model.modules() for name in each._buffers]
    model.to(dtype)
    for module, name, buffer in exact:
        if name.endswith(FREQUENCIES):
            module._buffers[name] = buffer
    return model


def check_precision(setting: Setting) -> None:
    """Check that this torch has the precision of ``setting`` on its device, which must be available.

    Raises:
        UsageError: no torch has it there.
        EnvironmentProblem: this torch or this device does not have it.
    """
    kind = setting.device.partition(":")[0]
    if setting.bf16_method == "hint":
        raise UsageError("--bf16=hint is a method of OpenVINO: use --bf16=autocast, or --engine openvino")
    if setting.precision == "fp16" and setting.bf16_method == "fastmath":
        raise UsageError("fp16 has no fast math: leave the method out, or use bf16=autocast or bf16=cast")
    if setting.precision != "tf32":
        return
    if kind != "cuda":
        raise UsageError(f"tf32 is a precision of CUDA devices, not of {kind}; use --device cuda, or another precision")
    import torch

    index = int(setting.device.partition(":")[2] or 0)
    capability = torch.cuda.get_device_capability(index)
    if capability < TF32_CAPABILITY:
        name = torch.cuda.get_device_name(index)
        raise EnvironmentProblem(
            f"tf32: {name} has compute capability {capability[0]}.{capability[1]}, and TF32 begins with 8.0; use fp32"
        )


ARM = ("aarch64", "arm64")


def resolve_bf16_method(setting: Setting, inherited_mode: str) -> str | None:
    """The method that ``setting`` runs with; ``None`` for fp32 and tf32, whose tensors are fp32.

    fp16 is enabled by autocast unless the model is to be cast.

    For bf16 without a request it is fast math on ARM CPUs with oneDNN, and autocast everywhere else. On x86, oneDNN's
    fast math keeps using fp32 kernels; OpenBLAS has bf16 kernels for bf16 tensors only; accelerators have bf16 kernels
    of their own.

    Args:
        setting: precision, device, backend, and in ``bf16_method`` what ``--bf16=METHOD`` named.
        inherited_mode: oneDNN's math mode in the environment of the call. ``bf16`` asks for fast math, provided that
            oneDNN computes at all.
    """
    if setting.precision not in _DTYPES:
        return None
    if setting.bf16_method is not None or setting.precision == "fp16":
        return setting.bf16_method or "autocast"
    import torch

    has_onednn = torch.backends.mkldnn.is_available()
    uses_onednn = setting.device == "cpu" and setting.backend != "blas"
    is_fast = inherited_mode == "bf16" or (platform.machine() in ARM and has_onednn)
    return "fastmath" if uses_onednn and is_fast else "autocast"

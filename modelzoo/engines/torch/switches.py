"""torch's process-wide switches: the backend, and the internal precision of fp32 operators.

A switch only asks for a precision. Which one the kernels really used is measured by ``modelzoo.evidence``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from modelzoo.engines.torch.quantization import engine_of
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.machine.environment import MATH_MODE_VARIABLE
from modelzoo.machine.installation import installed_release
from modelzoo.records.run_report import ChangedSwitch, SwitchKind
from modelzoo.setting import ResolvedSetting, Setting


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
        if not _has_fp32_precision():  # first: what it sets decides about TF32 as well
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


def _has_fp32_precision() -> bool:
    import torch

    return hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision")


def _precision_switches(fast_math: bool, tf32: bool, *, cuda: bool) -> list[tuple[str, Any, str, object]]:
    """Name, owner, attribute and value of the switches of oneDNN and, if there is such a device, of CUDA.

    ``allow_tf32`` is used although torch 2.9 and newer also have ``fp32_precision``: inductor reads ``allow_tf32``,
    which raises if only ``fp32_precision`` has been set (https://github.com/pytorch/pytorch/issues/166387).
    """
    from torch import backends

    owners = {part: getattr(backends.mkldnn, part) for part in ("conv", "matmul", "rnn") if _has_fp32_precision()}
    wanted = "bf16" if fast_math else "ieee"
    found: list[tuple[str, Any, str, object]] = [
        (f"torch.backends.mkldnn.{part}.fp32_precision", owner, "fp32_precision", wanted)
        for part, owner in owners.items()
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
    if not _has_fp32_precision():
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
    """Whether this torch (before 2.9) can change oneDNN's math mode only by an environment variable.

    Does not import torch.
    """
    return (0, 0) < installed_release("torch") < (2, 9)

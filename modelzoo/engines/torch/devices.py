"""Find and select the device of a setting."""

from __future__ import annotations

from types import ModuleType

from modelzoo.errors import EnvironmentProblem


def device_module(name: str) -> ModuleType | None:
    """Return torch's module for an accelerator (``torch.cuda``, ``torch.npu`` …), or ``None`` for the CPU.

    Args:
        name: ``cpu``, ``cuda``, ``cuda:1``, ``npu`` ….

    Raises:
        EnvironmentProblem: this torch does not support the device, or this machine has none.
    """
    kind, _, index = name.partition(":")
    if name == "cpu":
        return None
    if kind == "cpu":
        raise EnvironmentProblem(f"--device {name}: the CPU has no index; use --device cpu")
    import torch

    module: ModuleType | None = getattr(torch, kind, None)
    if module is None or not hasattr(module, "is_available") or not hasattr(module, "Event"):
        raise EnvironmentProblem(f"--device {name}: torch {torch.__version__} has no device {kind!r}")
    if not module.is_available():
        raise EnvironmentProblem(
            f"--device {name}: no {kind} device is available here; check its driver, or use --device cpu"
        )
    if index and not (index.isdigit() and int(index) < module.device_count()):
        raise EnvironmentProblem(f"--device {name}: this machine has {module.device_count()} {kind} devices")
    return module


def select_device(name: str) -> ModuleType | None:
    """Make the device ``name`` current, so that events and synchronization refer to it; return as ``device_module``.

    Raises:
        EnvironmentProblem: as ``device_module``.
    """
    module = device_module(name)
    index = name.partition(":")[2]
    if module is not None and index:
        module.set_device(int(index))
    return module

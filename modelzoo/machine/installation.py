"""Import torch and torchvision, and explain in one line why they cannot be used."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from modelzoo.errors import EnvironmentProblem, first_line
from modelzoo.machine.linux import output_of

OLDEST_TORCH = 2, 6
ACCEPTS_NEWER_TORCH = 0, 29
"""The first release of torchvision that does not require one release of torch (0.29.1 requires ``torch>=2.14.0``)."""


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution, or ``None`` if it is not installed."""
    from importlib import metadata  # it takes longer to import than most of this package

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def installed_release(distribution: str) -> tuple[int, int]:
    """Return the first two numbers of the version of a distribution; zeros if it is not installed.

    Everything that depends on torch's version, or another's, asks this function.
    """
    return _release(installed_version(distribution) or "") or (0, 0)


def import_torch() -> ModuleType:
    """Import torch.

    Raises:
        EnvironmentProblem: it is not installed, cannot be loaded or is too old. The message says how to fix it.
    """
    try:
        torch = importlib.import_module("torch")
    except Exception as error:
        raise EnvironmentProblem(explain_torch_failure(error)) from error
    release = _release(torch.__version__)
    if release is not None and release < OLDEST_TORCH:
        raise EnvironmentProblem(
            f"torch {torch.__version__} is too old: this suite needs {'.'.join(map(str, OLDEST_TORCH))} or newer; run "
            "pip install --upgrade torch torchvision"
        )
    return torch


def import_torchvision() -> ModuleType:
    """Import torchvision, without torch's compiler.

    Raises:
        EnvironmentProblem: it is not installed or does not match torch. The message says how to fix it.
    """
    import_torch()
    try:
        return without_compiler("torchvision")
    except Exception as error:
        raise EnvironmentProblem(explain_torchvision_failure(error)) from error


def without_compiler(name: str) -> ModuleType:
    """Import a module that names ``is_compile_supported`` of ``torch._dynamo.utils`` without importing the compiler.

    ``torchvision.ops.roi_align`` calls it only where torchvision's own kernel is missing; ``torch._dynamo`` takes half
    as much CPU time to import as torch itself, and eager mode needs nothing of it. It is imported as soon as that
    function is called, or anything else is taken from there.
    """
    utilities = "torch._dynamo.utils"
    stand_in = ModuleType(utilities)

    def forget() -> None:
        if sys.modules.get(utilities) is stand_in:
            del sys.modules[utilities]

    def taken(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        forget()
        return getattr(importlib.import_module(utilities), attribute)

    vars(stand_in).update(
        __getattr__=taken, is_compile_supported=lambda device_type: taken("is_compile_supported")(device_type)
    )
    if "torch._dynamo" not in sys.modules:
        # A module that is known by its full name is taken without importing its package.
        sys.modules[utilities] = stand_in
    try:
        return importlib.import_module(name)
    finally:
        forget()


def mismatched_versions(torch_version: str, torchvision_version: str) -> str | None:
    """Return one line that says how to fix it if torch and torchvision are of different releases, else ``None``.

    torch 2.N matches torchvision 0.(15+N), as 2.10 and 0.25 (source: the table in torchvision's README). torchvision
    accepts newer releases of torch from ``ACCEPTS_NEWER_TORCH`` on. Other versions are not judged.
    """
    torch, vision = _release(torch_version), _release(torchvision_version)
    if torch is None or vision is None or torch[0] != 2:
        return None
    wanted = 0, 15 + torch[1]
    if wanted == vision or ACCEPTS_NEWER_TORCH <= vision < wanted:
        return None
    return (
        f"torch {torch_version} does not go with torchvision {torchvision_version}: "
        f'run pip install "torchvision=={wanted[0]}.{wanted[1]}.*"'
    )


def explain_torch_failure(error: Exception) -> str:
    """Return one line that says why ``import torch`` failed and how to fix it."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "PyTorch is not installed: run pip install torch torchvision"
    if "backend extension" in text or "torch_npu" in text:
        return (
            f"PyTorch cannot load a device backend ({text}): install that device's driver, or set "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 to run on the CPU"
        )
    return f"PyTorch cannot be imported ({text}): reinstall it with pip install --force-reinstall torch"


def explain_torchvision_failure(error: Exception) -> str:
    """Return one line that says why ``import torchvision`` failed and how to fix it."""
    text = _one_line(error)
    if isinstance(error, ModuleNotFoundError) and error.name == "torchvision":
        return "torchvision is not installed: run pip install torchvision"
    torch_version, torchvision_version = (installed_version(each) or "?" for each in ("torch", "torchvision"))
    mismatch = mismatched_versions(torch_version, torchvision_version)
    if mismatch is not None:
        return mismatch
    if "torchvision::" in text or "undefined symbol" in text or "custom C++ ops" in text:
        return (
            f"torchvision {torchvision_version} was built for another build of torch than {torch_version}: "
            f"install both from one index, pip install --force-reinstall torch==={torch_version.partition('+')[0]} "
            f"torchvision=={torchvision_version.partition('+')[0]}"
        )
    return f"torchvision cannot be imported ({text}): run pip install --force-reinstall torchvision"


def _release(version: str) -> tuple[int, int] | None:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match.group(1)), int(match.group(2))) if match else None


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"[:300]


REVISION_VARIABLE = "MODELZOO_REVISION"
"""Set in container images, which hold no repository."""


def suite_revision(checkout: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the git commit of ``checkout``, followed by ``+`` if tracked files were changed since.

    Returns:
        MODELZOO_REVISION if it is set; ``None`` if ``checkout`` is not a git repository or there is no git.
    """
    named = environ.get(REVISION_VARIABLE)
    if named:
        return named
    if not (checkout / ".git").exists():
        return None
    git = "git", "-c", f"safe.directory={checkout}", "-C", str(checkout)
    commit, changed = output_of(*git, "rev-parse", "HEAD"), output_of(*git, "status", "--porcelain", "-uno")
    return f"{commit.strip()}{'+' if changed else ''}" if commit else None

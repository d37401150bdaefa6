"""Find and load workload directories.

Nothing is registered: ``modelzoo run path/to/directory`` takes any directory that holds a ``workload.py``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.workload.declaration import Workload
from modelzoo.workload.imports import check_imports

CHECKOUT = Path(__file__).resolve().parents[2]
"""The directory that holds the package: the checkout's root, or site-packages (see ``is_checkout``)."""
STANDARD_WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert")
"""The workloads that run if none is named."""


def is_checkout() -> bool:
    """Whether the package runs from a checkout, which holds the standard workloads, or was installed without one."""
    return any((CHECKOUT / name / "workload.py").is_file() for name in STANDARD_WORKLOADS)


def find_workload(name: str) -> Path:
    """Return the directory of a workload.

    Args:
        name: path of a directory that holds a ``workload.py``, or name of a workload in the checkout.

    Raises:
        UsageError: there is no such directory.
    """
    for directory in (Path(name), CHECKOUT / name):
        if (directory / "workload.py").is_file():
            return directory.resolve()
    known = available_workloads()
    if not known and name in STANDARD_WORKLOADS:
        raise UsageError(
            f"workload {name!r} is not part of the installed package: clone modelzoo's repository and run "
            "'pip install --editable .' there, or give a directory that holds a workload.py"
        )
    choice = f"one of {', '.join(known)}, or " if known else ""
    raise UsageError(f"no workload {name!r}: give {choice}a directory that holds a workload.py")


def available_workloads() -> list[str]:
    """Return the names of the workloads in the checkout, the standard ones first.

    The list is empty if the package is installed without a checkout.
    """
    if not is_checkout():
        return []  # other packages in site-packages may have a workload.py
    found = {path.parent.name for path in CHECKOUT.glob("*/workload.py")}
    return [name for name in STANDARD_WORKLOADS if name in found] + sorted(found.difference(STANDARD_WORKLOADS))


def load_workload(directory: Path) -> Workload:
    """Import ``workload.py`` in ``directory`` and return its ``WORKLOAD``.

    Raises:
        UsageError: the file cannot be imported, or does not define a workload.
    """
    path = directory / "workload.py"
    check_imports(path)
    spec = importlib.util.spec_from_file_location(f"modelzoo_workload_{directory.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    workload = getattr(module, "WORKLOAD", None)
    if not isinstance(workload, Workload):
        raise UsageError(f"{path} must define WORKLOAD = modelzoo.workload.Workload(...)")
    if workload.judge is not None and not callable(workload.judge):
        name = type(workload.judge).__name__
        raise UsageError(f"{path}: judge must be a function; write judge=lambda options: {name}(...)")
    return replace(workload, directory=directory)

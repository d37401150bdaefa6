"""Find and load workload directories.

Nothing is registered: ``modelzoo run path/to/directory`` takes any directory that holds a ``workload.py``, and
``LIBRARY:NAME`` a model of a library, which a module of ``modelzoo.zoo`` declares.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from modelzoo import DISTRIBUTION
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError, first_line, suggestion
from modelzoo.files import cache_directory, files_sha256
from modelzoo.frozen import replace
from modelzoo.machine.linux import output_of
from modelzoo.workload.declaration import Workload

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent
"""The directory that holds the package: the checkout's root, or site-packages (see ``is_checkout``)."""
ZOO = PACKAGE / "zoo"
STANDARD_WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert")
"""The workloads that run if none is named."""
LIBRARIES = ("torchvision", "timm", "hf")
"""The modules of ``modelzoo.zoo``."""


def is_checkout() -> bool:
    """Whether the package runs from a checkout, with the standard workloads beside it, or was installed without one."""
    return any((CHECKOUT / name / "workload.py").is_file() for name in STANDARD_WORKLOADS)


def workloads_directory() -> Path:
    """The directory of the standard workloads: that of the checkout, or ``modelzoo/workloads`` of a wheel."""
    return CHECKOUT if is_checkout() else PACKAGE / "workloads"


# fmt: off
INSTALLED = {
    "matplotlib", "numpy", "jinja2", "rich", "psutil", "threadpoolctl", "msgspec", "platformdirs", "packaging",
    "transformers", "tokenizers", "huggingface_hub", "safetensors", "PIL", "pycocotools", "torch", "torchvision",
}
# fmt: on
"""Modules that come with the suite and its extra ``torch``; a workload may import others."""


def import_root() -> Path:
    """The directory with which, in PYTHONPATH, another interpreter imports this suite.

    That is the checkout. An installed package lies among others, whose torch is the wrong one for that interpreter, so
    a directory of the cache holds a link to it.

    Raises:
        EnvironmentProblem: the cache cannot be written to.
    """
    if is_checkout():
        return CHECKOUT
    directory = cache_directory() / "suite" / hashlib.sha256(os.fsencode(PACKAGE)).hexdigest()[:12]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (directory / PACKAGE.name).symlink_to(PACKAGE, target_is_directory=True)
    except OSError as error:
        raise EnvironmentProblem(
            f"{directory} cannot be written to: {error.strerror}; name another directory with MODELZOO_CACHE"
        ) from error
    return directory


def installation_advice(module: str = "torch") -> str:
    """What to do if a module is missing, or lacks a name; the end of an error."""
    if module.partition(".")[0] == PACKAGE.name:
        return "docs/workload.md says what a workload imports from modelzoo.workload and modelzoo.validity"
    if module.partition(".")[0] not in INSTALLED:
        return "install it, or name its directory in PYTHONPATH"
    if is_checkout():
        return "run ./scripts/run once, then use .venv/bin/python"
    return f"run pip install '{DISTRIBUTION}[torch]'"


def find_workload(name: str) -> Path:
    """Return where ``load_workload`` finds a workload: its directory, or the ``LIBRARY:NAME`` that was given.

    Args:
        name: path of a directory that holds a ``workload.py``, the name of one of ``available_workloads``, or
            ``LIBRARY:NAME``. A directory in the latter is made absolute.

    Raises:
        UsageError: there is no such directory, and no such library.
    """
    for directory in (Path(name), workloads_directory() / name):
        if (directory / "workload.py").is_file():
            return directory.resolve()
    library, _, model = name.partition(":")
    if library in LIBRARIES and model:
        place = Path(model).expanduser().absolute()
        return Path(f"{library}:{place if library == 'hf' and (place / 'config.json').is_file() else model}")
    known = available_workloads()
    choice = f"one of {', '.join(known)}, a" if known else "a"
    hint = suggestion(name, known)
    raise UsageError(
        f"no workload {name!r}: give {choice} directory that holds a workload.py, or a model as LIBRARY:NAME "
        f"({', '.join(LIBRARIES)}){hint}"
    )


def available_workloads() -> list[str]:
    """Return the names of the workloads in the checkout or the installed package, the standard ones first."""
    found = {path.parent.name for path in workloads_directory().glob("*/workload.py")}
    return [name for name in STANDARD_WORKLOADS if name in found] + sorted(found.difference(STANDARD_WORKLOADS))


def library_models(library: str) -> list[str]:
    """Return the models that ``LIBRARY:NAME`` can name, each as it is named.

    Args:
        library: its name, with or without the colon.

    Raises:
        UsageError: there is no such library.
        EnvironmentProblem: it is not installed.
    """
    name = library.removesuffix(":")
    if name not in LIBRARIES:
        raise UsageError(f"no library {library!r}: give one of {', '.join(f'{each}:' for each in LIBRARIES)}")
    return [f"{name}:{model}" for model in importlib.import_module(f"modelzoo.zoo.{name}").names()]


def code_sha256(directory: Path) -> str:
    """Return the SHA-256 of the Python files below a workload's directory; empty if there is no ``workload.py``.

    Hidden directories and environments are left out.
    """
    if not (directory / "workload.py").is_file() and directory != ZOO:
        return ""
    found = []
    for folder, inner, names in os.walk(directory):
        place = Path(folder)
        inner[:] = [each for each in inner if each[0] != "." and not (place / each / "pyvenv.cfg").exists()]
        found += [place / name for name in names if name.endswith(".py")]
    return files_sha256(directory, found)


def imported_sha256(directory: Path) -> str:
    """Return the SHA-256 of a workload's ``workload.py`` and of the modules beside it that were imported so far.

    For a ``LIBRARY:NAME``, it is that of ``modelzoo.zoo``.
    """
    if not directory.is_dir():
        return code_sha256(ZOO)
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    found = {Path(file) for file in files if file.startswith(f"{directory}{os.sep}")}
    return files_sha256(directory, found | {directory / "workload.py"})


_loaded: list[str] = []
"""The directories of the workloads that this process has imported."""


def _import_from(directory: Path) -> None:
    """Let ``import`` find the modules beside a ``workload.py`` first, now and later, as if Python ran that file.

    Modules of the same names that belong to workloads which were imported before are forgotten.
    """
    place = str(directory)
    if place in sys.path:
        sys.path.remove(place)
    sys.path.insert(0, place)
    others = tuple(each + os.sep for each in _loaded if each != place)
    for name, module in list(sys.modules.items()):
        top = directory / name.partition(".")[0]
        is_other = (getattr(module, "__file__", None) or "").startswith(others)
        if is_other and (top.is_dir() or top.with_suffix(".py").is_file()):
            del sys.modules[name]
    _loaded.append(place)


def load_workload(directory: Path) -> Workload:
    """Import ``workload.py`` in ``directory``, and what lies beside it, and return its ``WORKLOAD``.

    Args:
        directory: it, or ``LIBRARY:NAME``, as ``find_workload`` returns it.

    Raises:
        UsageError: the file cannot be imported, or does not define a workload; the library has no such model.
    """
    library, _, model = str(directory).partition(":")
    if library in LIBRARIES:
        try:
            named: Workload = importlib.import_module(f"modelzoo.zoo.{library}").workload(model)
        except ModelzooError:
            raise
        except Exception as error:  # of the library, for a reason of its own
            advice = f"; {installation_advice(error.name or '')}" if isinstance(error, ImportError) else ""
            raise UsageError(f"{directory} cannot be loaded: {first_line(error)}{advice}") from error
        return replace(named, directory=ZOO, place=str(directory))
    path = directory / "workload.py"
    _import_from(directory)
    spec = importlib.util.spec_from_file_location(f"modelzoo_workload_{directory.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        advice = installation_advice(error.name or "")
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}; {advice}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    workload = getattr(module, "WORKLOAD", None)
    if not isinstance(workload, Workload):
        raise UsageError(f"{path} must define WORKLOAD = modelzoo.workload.Workload(...)")
    if workload.judge is not None and not callable(workload.judge):
        name = type(workload.judge).__name__
        raise UsageError(f"{path}: judge must be a function; write judge=lambda options: {name}(...)")
    return replace(workload, directory=directory, place=str(directory))


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

"""Another Python interpreter that runs workers: whether it can, and how it finds this suite."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import msgspec

from modelzoo.errors import UsageError
from modelzoo.workload.discovery import CHECKOUT, is_checkout

REQUIRED = ("torch", "msgspec", "numpy", "psutil", "safetensors", "platformdirs", "threadpoolctl")
"""What every worker imports."""
OLDEST = (3, 9)
_ADVICE = "name an environment such as envs/torch-2.9.1/bin/python, which 'scripts/torch-env 2.9.1' makes"
_SECONDS = 60
# It must run on any Python 3, and finds modules without importing them.
_PROBE = """
import importlib.util, json, sys
found = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
suite = importlib.util.find_spec("modelzoo")
print(json.dumps([list(sys.version_info[:2]), found, suite.origin if suite else None]))
"""

_Answer = tuple[tuple[int, int], tuple[str, ...], Optional[str]]


@dataclass(frozen=True)
class Interpreter:
    """What an interpreter says about itself.

    Attributes:
        version: of Python, major and minor.
        modules: those of ``REQUIRED`` that it has.
        suite: path of the suite's package that it finds by itself; ``None`` if it finds none.
    """

    version: tuple[int, int]
    modules: tuple[str, ...]
    suite: Optional[str]


def find_interpreter(name: str) -> str:
    """Return the absolute path of the interpreter that ``python=NAME`` means, after checking that it can run workers.

    Raises:
        UsageError: it does not exist, is not an interpreter, or lacks what a worker needs.
    """
    found = shutil.which(name) if os.sep not in name else None
    # A link stays a link: an interpreter finds its environment by the path that it was called by.
    path = Path(found or name).expanduser().absolute()
    if path.is_dir():
        raise UsageError(f"python={name} is a directory; name the interpreter in it, for example {name}/bin/python")
    if not path.is_file():
        raise UsageError(f"python={name} does not exist; {_ADVICE}")
    about = _ask(str(path))
    if about.version < OLDEST:
        raise UsageError(f"python={name} is Python {about.version[0]}.{about.version[1]}; the suite needs 3.9 or newer")
    missing = [module for module in REQUIRED if module not in about.modules]
    if missing:
        raise UsageError(f"python={name} lacks {', '.join(missing)}; {_ADVICE}")
    if not is_checkout() and about.suite is None:
        raise UsageError(f"python={name} lacks modelzoo; install this version there, or run from a checkout")
    return str(path)


def suite_path(python: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variable with which ``python`` imports this suite; none if it would find the same anyway.

    Without a checkout, the suite lies among the packages of one interpreter, which another must not import.
    """
    if python != sys.executable:
        suite = _ask(python).suite
        if not is_checkout() or (suite is not None and Path(suite).resolve().parents[1] == CHECKOUT):
            return {}
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), environ.get("PYTHONPATH")]))}


@functools.cache
def _ask(python: str) -> Interpreter:
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *REQUIRED], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        version, modules, suite = msgspec.json.decode((done.stdout.splitlines() or [""])[-1], type=_Answer)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no answer within {_SECONDS} s"
        raise UsageError(f"python={python} cannot be run as an interpreter: {reason}; {_ADVICE}") from error
    except (ValueError, msgspec.DecodeError) as error:
        raise UsageError(f"python={python} is not a Python interpreter; {_ADVICE}") from error
    return Interpreter(version, modules, suite)

"""The two builds of ``modelzoo check``: interpreters as they are, or environments that uv makes and the cache keeps.

An environment is called after what decides its contents: the requirements, the contents of wheels and of requirement
files, the Python, the indexes, and what the suite itself needs. A file in it, written last, says that it is complete;
one that is not is made again.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from modelzoo import DISTRIBUTION
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.files import cache_directory, file_sha256, write_atomically
from modelzoo.machine.environment import is_secret
from modelzoo.measure.launcher import find_interpreter
from modelzoo.workload.discovery import installation_advice

OWN = "default"
"""What the command line calls the interpreter that runs the suite."""
STAMP = "modelzoo-check"
"""The file that is written last."""
EXTRA = "torch"
"""The extra of the suite whose packages an environment gets besides what was asked for."""
FAMILY = re.compile(r"(torch(|vision|audio)|(pytorch-)?triton|sympy|networkx|mpmath|setuptools)$|nvidia-|cuda-")
"""Packages whose versions belong to the release of torch."""
INDEXES = (
    *("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX_STRATEGY"),
    *("UV_TORCH_BACKEND", "UV_PRERELEASE", "UV_RESOLUTION", "UV_EXCLUDE_NEWER", "PIP_INDEX_URL"),
)
"""Variables that decide which packages are found."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_NAME = 48
Say = Callable[[str], None]


class Build(msgspec.Struct, frozen=True):
    """What one side of a check runs.

    Attributes:
        option: the option that named it, for messages.
        title: what was asked for, as it was typed.
        interpreter: path of an interpreter; ``None`` if an environment is to be made.
        requirements: as uv takes them.
        wheels: files among the requirements.
        lists: requirement files.
        variables: environment variables that its processes get besides.
    """

    option: str
    title: str
    interpreter: str | None = None
    requirements: tuple[str, ...] = ()
    wheels: tuple[Path, ...] = ()
    lists: tuple[Path, ...] = ()
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)


def parse_build(option: str, texts: Sequence[str], variables: Sequence[str] = ()) -> Build:
    """Return what the values of ``--base`` or ``--head`` mean.

    Args:
        option: its name.
        texts: an interpreter, or wheels, requirement files and requirements.
        variables: values of ``--base-env`` or ``--head-env``.

    Raises:
        UsageError: a file does not exist, a text is no requirement, or an interpreter is not alone.
    """
    without_passwords = [re.sub(r"//[^/@\s]*@", "//", text) for text in texts]
    pairs = [text.partition("=") for text in variables]
    hidden = [f"{name}=(hidden)" if sign and is_secret(name) else name + sign + value for name, sign, value in pairs]
    title = " ".join([*without_passwords, *hidden])
    files = [path for text in texts for path in _files(option, text)]
    interpreters = [str(path) for path in files if path.suffix not in (".whl", ".txt")]
    interpreters += [text for text in texts if _is_interpreter(text)]
    named = [text for text in texts if not _is_path(text) and not _is_interpreter(text)]
    if interpreters and len(texts) > 1:
        raise UsageError(f"{option} {interpreters[0]} is an interpreter, which stands alone; leave the others out")
    if interpreters:
        own = sys.executable if interpreters[0] == OWN else find_interpreter(interpreters[0])
        return Build(option, title, own, variables=_variables(option, variables))
    return Build(
        option,
        title,
        requirements=tuple(word for text in named for word in _requirements(option, text)),
        wheels=tuple(path.absolute() for path in files if path.suffix == ".whl"),
        lists=tuple(path.absolute() for path in files if path.suffix == ".txt"),
        variables=_variables(option, variables),
    )


def _is_interpreter(text: str) -> bool:
    return text == OWN or re.fullmatch(r"python[\d.]*", text) is not None


def _is_path(text: str) -> bool:
    return "://" not in text and (os.sep in text or text.endswith((".whl", ".txt")) or text in (".", ".."))


def _files(option: str, text: str) -> list[Path]:
    """The files that a path or a pattern names; none if the text is something else."""
    if not _is_path(text):
        return []
    path = Path(text).expanduser()
    found = [path] if path.exists() else sorted(Path(each) for each in glob.glob(str(path)))  # noqa: PTH207
    if not found:
        raise UsageError(f"{option} {text} does not exist; name an interpreter, a wheel or a requirement")
    for each in found:
        if each.is_dir():
            raise UsageError(
                f"{option} {text} is a directory; name the interpreter of an environment, such as {text}/bin/python, "
                "or the wheel of a project ('uv build --wheel' builds it)"
            )
    return found


def _requirements(option: str, text: str) -> list[str]:
    """The requirements in a text: ``torch==2.13.0``, or several with spaces between them."""
    for words in ([text], text.split()):
        try:
            # A version alone would be a valid name.
            if words and all(Requirement(word).name[0].isalpha() for word in words):
                return words
        except InvalidRequirement:
            continue
    raise UsageError(
        f"{option} {text!r} is no requirement such as torch==2.13.0, no wheel and no interpreter ({OWN} is the suite's "
        "own)"
    )


def _variables(option: str, texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(f"{option}-env {text!r} must have the form NAME=VALUE")
        found[name] = value
    return found


def interpreters(base: Build, head: Build, say: Say) -> tuple[str, str]:
    """Return the interpreters of both sides, after making the environments that do not exist yet.

    What neither side asked for has the same version on both: the second environment is constrained to what the first
    one, or the interpreter, has.

    Args:
        base: the baseline.
        head: the other side.
        say: tells people what takes long.

    Raises:
        EnvironmentProblem: uv is missing or cannot make an environment, or the cache cannot be written to.
    """
    first, second = (head, base) if base.interpreter is None and head.interpreter is not None else (base, head)
    made = first.interpreter or _made(first, (), say)
    pins = () if second.interpreter is not None else _pins(made, second)
    then = second.interpreter or _made(second, pins, say)
    found = {first.option: _with_variables(made, first), second.option: _with_variables(then, second)}
    return found[base.option], found[head.option]


def _made(build: Build, pins: tuple[str, ...], say: Say) -> str:
    """The interpreter of an environment with the requirements of ``build``."""
    files = ["-".join(path.stem.split("-")[:2]) for path in (*build.wheels, *build.lists)]
    directory = _directory([*build.requirements, *files][0], _key(build, pins))
    python = directory / "bin" / "python"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        lock = (directory.parent / f".{directory.name}.lock").open("w")
    except OSError as error:
        raise _unwritable(directory, error) from error
    with lock:  # only one process makes an environment; the others wait until it is complete
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / STAMP).is_file():
            say(f"{build.option}: making an environment with {build.title} in {directory}, which takes a few minutes")
            shutil.rmtree(directory, ignore_errors=True)
            _make(build, directory, pins, say)
            write_atomically(directory / STAMP, build.title)  # not the key: an index may have a password
    return str(python)


def _make(build: Build, directory: Path, pins: Sequence[str], say: Say) -> None:
    uv = _uv()
    _run([uv, "venv", "--quiet", "--python", sys.executable, str(directory)], build)
    words = [*_suite_requirements(), *build.requirements, *map(str, build.wheels)]
    words += [word for path in build.lists for word in ("--requirement", str(path))]
    # Modules that are compiled at the first import would make the first processes slower.
    install = [uv, "pip", "install", "--compile-bytecode", "--python", str(directory / "bin" / "python")]
    install += [] if sys.stderr.isatty() else ["--quiet"]
    index = os.environ.get("PIP_INDEX_URL")  # uv does not read pip's variables
    if index and not (os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")):
        install += ["--default-index", index]
    install += words
    if pins:
        constraints = directory / "constraints.txt"
        write_atomically(constraints, "".join(f"{pin}\n" for pin in pins))
        if _succeeds([*install, "--constraint", str(constraints)]):
            return
        say(
            f"{build.option}: it cannot be installed with the other side's versions of everything else (see above), so "
            "more than was asked for will differ; the page lists it"
        )
    _run(install, build)


def _suite_requirements() -> list[str]:
    """What the suite needs to run models, as its own metadata says."""
    try:
        declared = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        raise EnvironmentProblem(
            f"the suite is not installed as {DISTRIBUTION}, so what it needs is not known: {installation_advice()}"
        ) from None
    found = [Requirement(text) for text in declared]
    own = [each for each in found if canonicalize_name(each.name) == DISTRIBUTION]
    # The suite itself, with the extras that ``EXTRA`` is made of.
    parts = [part for each in own if each.marker and each.marker.evaluate({"extra": EXTRA}) for part in each.extras]
    extras = ("", EXTRA, *parts)
    needed = [each for each in found if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in extras)]
    return [f"{each.name}{each.specifier}" for each in needed if each not in own]


def _pins(python: str, build: Build) -> tuple[str, ...]:
    """The versions of an environment that the other one is to have as well: not of torch, and not of what it names."""
    done = subprocess.run(
        [_uv(), "pip", "freeze", "--quiet", "--python", python], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise EnvironmentProblem(f"uv cannot list the packages of {python}: {last}")
    named = {canonicalize_name(Requirement(text).name) for text in build.requirements}
    named |= {canonicalize_name(path.name.partition("-")[0]) for path in build.wheels}
    lines = (line.strip() for line in done.stdout.splitlines())
    pinned = ((line, canonicalize_name(line.partition("==")[0])) for line in lines if "==" in line)
    return tuple(line for line, name in pinned if name not in named and not FAMILY.match(name) and name != DISTRIBUTION)


def _key(build: Build, pins: Sequence[str]) -> str:
    """Everything that decides what is in an environment; of what is not pinned, the day as well."""
    return json.dumps(
        {
            "requirements": build.requirements,
            "files": [[path.name, file_sha256(path)] for path in (*build.wheels, *build.lists)],
            "suite": _suite_requirements(),
            "pins": pins,
            "python": [sys.implementation.cache_tag, platform.python_version(), platform.machine()],
            "indexes": {name: os.environ[name] for name in INDEXES if os.environ.get(name)},
            "day": "" if _is_exact(build) else datetime.now(timezone.utc).date().isoformat(),
        },
        indent=1,
    )


def _is_exact(build: Build) -> bool:
    """Whether the same packages would be found on another day: each requirement names one version."""
    specifiers = [list(Requirement(text).specifier) for text in build.requirements]
    return not build.lists and all(
        len(each) == 1 and each[0].operator in ("==", "===") and "*" not in each[0].version for each in specifiers
    )


def _with_variables(python: str, build: Build) -> str:
    """An interpreter that sets the variables of a side before it starts: a script that is kept like an environment."""
    if not build.variables:
        return python
    set_ = [f"{name}={shlex.quote(value)}" for name, value in build.variables.items()]
    text = f'#!/bin/sh\nexec env {" ".join(set_)} {shlex.quote(python)} "$@"\n'
    directory = _directory("-".join(f"{name}-{value}" for name, value in build.variables.items()), text) / "bin"
    script = directory / "python"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_atomically(script, text)
        script.chmod(0o755)
    except OSError as error:
        raise _unwritable(directory, error) from error
    return find_interpreter(str(script))


def _directory(name: str, key: str) -> Path:
    """The directory in the cache of what ``key`` decides."""
    slug = re.sub(r"[^\w.+]+", "-", name)[:_LONGEST_NAME].strip("-")
    return cache_directory().absolute() / "environments" / f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _unwritable(directory: Path, error: OSError) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{directory} cannot be written to: {error.strerror}; name another directory with MODELZOO_CACHE"
    )


def _uv() -> str:
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        raise EnvironmentProblem(
            "uv is not installed, which makes the environments: run pip install uv, or name two interpreters"
        )
    return found


def _run(command: Sequence[str], build: Build) -> None:
    if not _succeeds(command):
        raise EnvironmentProblem(f"{build.option} {build.title}: uv cannot make the environment (see above)")


def _succeeds(command: Sequence[str]) -> bool:
    """Run a program whose output is for people."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode == 0
    except OSError as error:
        raise EnvironmentProblem(f"{command[0]} cannot be run: {error.strerror}") from error

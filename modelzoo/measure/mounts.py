"""Which files of this machine a container is shown, and where it sees them.

A container is shown what the user has named and what workers on this machine have found, never what another container
names. It sees each file at a place that depends on its path only, such as ``/modelzoo/inputs/4e1243bd22c6/resnet.pth``:
a file's own path may lead through directories that are closed to the user of the container. Jobs are sent with these
places, and what a container answers is translated back.

Each image has a cache of its own, a volume that no other image can write to: what one leaves there, another might run.
Weights in it are shown to the others read-only.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Optional, TypeVar, Union

import msgspec

from modelzoo.errors import UsageError
from modelzoo.frozen import replace
from modelzoo.records.protocol import (
    ConcludeJob,
    Job,
    Preparation,
    PrepareJob,
    SettingJob,
    ShardJob,
    ValidateJob,
)
from modelzoo.records.run import Prepared
from modelzoo.records.workload import LocalWeights, Weights
from modelzoo.setting import Setting
from modelzoo.workload.discovery import STANDARD_WORKLOADS, workloads_directory
from modelzoo.workload.weights import SOURCES

IMAGE_ROOT = PurePosixPath("/modelzoo")
"""Where an image of the suite has its workloads."""
INPUTS = IMAGE_ROOT / "inputs"
"""Where containers see files of this machine."""
CACHE = IMAGE_ROOT / "cache"
"""Where a container sees the cache of its image."""
CACHES = IMAGE_ROOT / "caches"
"""Where it sees the caches of other images; this process calls all of them by these names."""
USER = 1000
"""The user, and the group, that containers run as; the images of the suite have it."""
_IN_IMAGES = (*STANDARD_WORKLOADS, "llm", "examples")
"""What the Dockerfile copies there."""
S = TypeVar("S", bound=Setting)
_SPECIAL = ',"\n'
"""Characters with a meaning in ``--mount``."""
_CACHED = re.compile(rb"(?<![\w.~/-])" + str(CACHE).encode() + rb"(?=/)")


def place(path: str) -> str:
    """Return where containers see the file or directory ``path`` of this machine; its name is the same."""
    return str(INPUTS / hashlib.sha256(os.fsencode(path)).hexdigest()[:12] / Path(path).name)


def is_within(path: str, names: Collection[str]) -> bool:
    """Whether ``path`` is one of ``names`` or lies below one, without ``..`` on the way."""
    place = Path(path)
    return ".." not in place.parts and any(place == Path(name) or Path(name) in place.parents for name in names)


def named_files(job: Job, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files and directories of this machine that a container with ``job`` is shown.

    Args:
        job: as for a worker on this machine.
        environ: the environment of the call.
    """
    return tuple(dict.fromkeys(_named(job, environ)))


def own_weights(environ: Mapping[str, str]) -> Optional[str]:
    """The user's directory of checkpoints, if there is one."""
    found = environ.get("MODELZOO_WEIGHTS")
    return str(Path(found).expanduser().absolute()) if found else None


def _named(job: Job, environ: Mapping[str, str]) -> Iterator[str]:
    directory = directory_of(job)
    if _in_image(directory) is None:
        yield directory
    for setting in job.settings if isinstance(job, PrepareJob) else (job.assignment.requested,):
        if setting.weights not in SOURCES:
            yield setting.weights
        if setting.input is not None:
            yield setting.input
    yield from (each.path for each in _known_weights(job) if isinstance(each, LocalWeights))
    own = own_weights(environ)
    if isinstance(job, PrepareJob) and own is not None:
        yield own
    if isinstance(job, (ValidateJob, ShardJob, ConcludeJob)) and job.request.data is not None:
        yield job.request.data


def _known_weights(job: Union[PrepareJob, SettingJob]) -> list[Weights]:
    known = [each.prepared for each in job.earlier] if isinstance(job, PrepareJob) else [job.assignment.prepared]
    return [each.weights for each in known if each is not None]


def directory_of(job: Union[PrepareJob, SettingJob]) -> str:
    """The workload's directory."""
    return job.directory if isinstance(job, PrepareJob) else job.assignment.directory


# A job as a container needs it


def inside(job: Job, cache: str) -> Job:
    """Return ``job`` with the places of all files that it names, and without the id of this process.

    Args:
        job: as for a worker on this machine.
        cache: the name of the cache of the container's image, see ``cache_name``.
    """
    directory = _in_image(directory_of(job)) or place(directory_of(job))
    if isinstance(job, PrepareJob):
        settings = tuple(_setting(each) for each in job.settings)
        found = [each.prepared for each in job.earlier if each.prepared is not None]
        earlier = tuple(Preparation(_prepared(each, cache)) for each in found)
        return replace(job, directory=directory, parent=None, settings=settings, earlier=earlier)
    own = job.assignment
    export = own.prepared.export
    if export is not None:
        export = replace(export, path=_in_own_cache(export.path, cache))
    assignment = replace(
        own,
        directory=directory,
        parent=None,
        requested=_setting(own.requested),
        prepared=replace(_prepared(own.prepared, cache), export=export),
    )
    if isinstance(job, (ValidateJob, ShardJob, ConcludeJob)) and job.request.data is not None:
        return replace(job, assignment=assignment, request=replace(job.request, data=place(job.request.data)))
    return replace(job, assignment=assignment)


def _in_image(directory: str) -> Optional[str]:
    """Where an image has its own copy of a workload; ``None`` if it has none."""
    path = Path(directory)
    root = workloads_directory()
    if path.is_relative_to(root):
        inner = path.relative_to(root)
        if inner.parts and inner.parts[0] in _IN_IMAGES:
            return str(IMAGE_ROOT / inner)
    return None


def _setting(setting: S) -> S:
    return replace(
        setting,
        weights=setting.weights if setting.weights in SOURCES else place(setting.weights),
        input=None if setting.input is None else place(setting.input),
    )


def _prepared(found: Prepared, cache: str) -> Prepared:
    return Prepared(_setting(found.setting), _weights(found.weights, cache))


def _weights(weights: Weights, cache: str) -> Weights:
    """Weights that are not of this machine lie in the image or in a cache."""
    is_local = isinstance(weights, LocalWeights)
    return replace(weights, path=place(weights.path) if is_local else _in_own_cache(weights.path, cache))


def _in_own_cache(path: str, cache: str) -> str:
    return str(CACHE / PurePosixPath(path).relative_to(cache)) if is_within(path, [cache]) else path


# What a container answers


def outside(line: bytes, names: Collection[str], cache: str) -> bytes:
    """Return what a container said, JSON or plain text, with the paths of this machine in place of its own.

    Args:
        line: what it said.
        names: ``named_files`` of its job.
        cache: the name of the cache of its image.
    """
    line = _CACHED.sub(cache.encode(), line)
    for name in names:
        line = line.replace(_quoted(place(name)), _quoted(name))
    return line


def _quoted(path: str) -> bytes:
    """``path`` as JSON has it within quotation marks."""
    return msgspec.json.encode(os.fsencode(path).decode(errors="replace"))[1:-1]


# The options


def cache_name(image_id: str) -> str:
    """The name of the cache of the image with this id, among those of all images."""
    return str(CACHES / image_id.rpartition(":")[2][:12])


def cache_options(job: Job, cache: str) -> list[str]:
    """Return the options of ``docker run`` that show the cache of its image, and those that hold weights of ``job``.

    Args:
        job: as for a worker on this machine.
        cache: the name of the cache of the container's image.
    """
    found = [PurePosixPath(each.path) for each in _known_weights(job) if is_within(each.path, [str(CACHES)])]
    others = sorted({str(CACHES / path.relative_to(CACHES).parts[0]) for path in found} - {cache})
    return [f"--volume={_volume(cache)}:{CACHE}", *(f"--volume={_volume(other)}:{other}:ro" for other in others)]


def _volume(cache: str) -> str:
    return f"modelzoo-cache-{PurePosixPath(cache).name}"


def mount_options(job: Job, environ: Mapping[str, str]) -> list[str]:
    """Return the options of ``docker run`` that show the files of ``job``, read-only; what does not exist is left out.

    Args:
        job: as for a worker on this machine.
        environ: the environment of the call.

    Raises:
        UsageError: a file cannot be shown: the user of the container cannot read it, it is neither a file nor a
            directory, a directory has links to elsewhere, or a path contains characters that have a meaning for
            ``--mount``.
    """
    workload = directory_of(job)
    options = []
    for name in named_files(job, environ):
        for source, target in _sources(name, is_code=name == workload):
            if any(character in source + target for character in _SPECIAL):
                raise UsageError(
                    f"{source!r} cannot be shown to a container, because its name has a comma, a quotation mark or a "
                    "line break; rename it"
                )
            options.append(f"--mount=type=bind,source={source},target={target},readonly")
    return options


def _sources(name: str, is_code: bool) -> Iterator[tuple[str, str]]:
    """What to mount, and where, so that a container sees ``name``."""
    try:
        path = Path(name).expanduser().absolute().resolve(strict=True)
        if path.parent.name == "snapshots" and path.is_dir():
            yield from _snapshot(path, name)
            return
        for each in (path, path / "workload.py") if is_code else _tree(path, name):
            _check_readable(each, name)
    except FileNotFoundError:
        return  # the worker says so
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        reason = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise UsageError(f"{name} cannot be shown to a container: {reason}; name another file") from error
    yield str(path), place(name)


def _tree(path: Path, name: str) -> Iterator[Path]:
    """``path`` and what lies below it; hidden files are of no interest.

    Raises:
        UsageError: a link leaves the directory. Whoever made the directory would decide what is shown.
    """
    yield path
    for directory, directories, files in os.walk(path):
        directories[:] = [each for each in directories if not each.startswith(".")]
        for each in (*directories, *(file for file in files if not file.startswith("."))):
            found = Path(directory, each)
            if found.is_symlink():
                target = found.readlink()
                if target.is_absolute() or path not in Path(os.path.normpath(found.parent / target)).parents:
                    raise UsageError(
                        f"{found} is a link out of {name}, and a container is shown only what is in it: put a copy of "
                        f"{target} in its place"
                    )
            else:
                yield found


def _snapshot(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """The files of a checkpoint in Hugging Face's cache: links to files in ``blobs``, which are mounted one by one."""
    blobs = path.parents[1] / "blobs"
    for directory, _, files in os.walk(path):
        for file in files:
            link = Path(directory, file)
            found = link.resolve()
            if path not in found.parents and blobs not in found.parents:
                raise UsageError(f"{link} is a link out of its repository {path.parents[1]}; download it again")
            if found.exists():
                _check_readable(found, str(found))
                yield str(found), str(PurePosixPath(place(name), link.relative_to(path).as_posix()))


def _check_readable(path: Path, name: str) -> None:
    """Raise ``UsageError`` unless the user of the containers can read ``path``, which is, or lies below, ``name``."""
    about = path.stat()
    is_directory = stat.S_ISDIR(about.st_mode)
    if not is_directory and not stat.S_ISREG(about.st_mode):
        raise UsageError(f"{path} is neither a file nor a directory, so it cannot be shown to a container")
    shift = 6 if about.st_uid == USER else 3 if about.st_gid == USER else 0
    needed = 0o5 if is_directory else 0o4
    if about.st_mode >> shift & needed != needed:
        options = "-R a+rX" if Path(name).is_dir() else "a+r"
        raise UsageError(
            f"{path} cannot be read in a container, which runs as user {USER}: run 'chmod {options} "
            f"{shlex.quote(name)}' (the directories above it may stay closed)"
        )

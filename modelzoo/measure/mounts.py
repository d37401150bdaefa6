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
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from modelzoo.errors import UsageError
from modelzoo.records.protocol import Job, PrepareJob
from modelzoo.records.workload import LocalWeights, Weights
from modelzoo.workload.checkpoints import is_offline
from modelzoo.workload.declaration import SOURCES
from modelzoo.workload.discovery import LIBRARIES, STANDARD_WORKLOADS, workloads_directory
from modelzoo.workload.state import MEMBER

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
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_NETWORK = ("HF_ENDPOINT", *_PROXIES, *map(str.upper, _PROXIES))
"""Variables that lead the hubs' clients to a mirror or a proxy."""
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables that name the certificates with which they check it: of OpenSSL and httpx, and of requests."""
_SPECIAL = ',"\n'
"""Characters with a meaning in ``--mount``."""
_CACHE_NAME = re.compile(rf"{CACHES}/[0-9a-zA-Z]+(?=/)")
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
    library, _, model = job.directory.partition(":")
    found: list[str | None] = []
    if library in LIBRARIES:
        found += [model] if Path(model).is_absolute() else []
    elif _in_image(job.directory) is None:
        found.append(job.directory)
    for setting in job.settings:
        found += [setting.weights.partition(MEMBER)[0] if setting.weights not in SOURCES else None, setting.input]
    found += [each.path.partition(MEMBER)[0] for each in known_weights(job) if isinstance(each, LocalWeights)]
    found.append(path_in(environ, "MODELZOO_WEIGHTS"))
    if not isinstance(job, PrepareJob) and job.validity is not None:
        found.append(job.validity.data)
    found += _certificates(job, environ).values()
    return tuple(dict.fromkeys(each for each in found if each is not None))


def path_in(environ: Mapping[str, str], name: str) -> str | None:
    """The absolute path in a variable, such as ``MODELZOO_WEIGHTS``; ``None`` if it is not set."""
    found = environ.get(name)
    return str(Path(found).expanduser().absolute()) if found else None


def _may_download(job: Job, environ: Mapping[str, str]) -> bool:
    needs = isinstance(job, PrepareJob) and any(each.weights in ("auto", "pretrained") for each in job.settings)
    return needs and not is_offline(environ)


def _certificates(job: Job, environ: Mapping[str, str]) -> dict[str, str]:
    """The files of certificates that a container which may download is shown, by the variable that names each."""
    named = {name: path_in(environ, name) for name in _CERTIFICATES} if _may_download(job, environ) else {}
    return {name: path for name, path in named.items() if path is not None}


def known_weights(job: Job) -> list[Weights]:
    """Return the weights that other workers have found for ``job``."""
    known = job.earlier if isinstance(job, PrepareJob) else (job.prepared,)
    return [each.weights for each in known]


def _in_image(directory: str) -> str | None:
    """Where an image has its own copy of a workload; ``None`` if it has none."""
    path = Path(directory)
    root = workloads_directory()
    if path.is_relative_to(root):
        inner = path.relative_to(root)
        if inner.parts and inner.parts[0] in _IN_IMAGES:
            return str(IMAGE_ROOT / inner)
    return None


# What is said to a container, and what it answers


def inside(line: bytes, job: Job, names: Collection[str], cache: str) -> bytes:
    """Return ``line``, which is ``job`` as JSON, with the places of all files that it names.

    Args:
        names: ``named_files`` of the job.
        cache: the name of the cache of the container's image, see ``cache_name``.
    """
    places = {**{name: place(name) for name in names}, cache: str(CACHE)}
    library, _, model = job.directory.partition(":")
    if model in places:
        places[job.directory] = f"{library}:{place(model)}"
    places.setdefault(job.directory, _in_image(job.directory) or job.directory)
    for end in (b'"', MEMBER.encode(), b"/"):  # a file that was named is not looked for in a directory that was
        for here, there in places.items():
            line = line.replace(b'"' + _quoted(here) + end, b'"' + _quoted(there) + end)
    return line


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


def caches(weights: Iterable[Weights]) -> set[str]:
    """Return the names of the caches that hold ``weights``."""
    return {found[0] for each in weights if (found := _CACHE_NAME.match(each.path))}


def cache_options(job: Job, cache: str) -> list[str]:
    """Return the options of ``docker run`` that show the cache of its image, and those that hold weights of ``job``.

    Args:
        job: as for a worker on this machine.
        cache: the name of the cache of the container's image.
    """
    others = (f"--volume={_volume(other)}:{other}:ro" for other in sorted(caches(known_weights(job)) - {cache}))
    return [f"--volume={_volume(cache)}:{CACHE}", *others]


def network_options(job: Job, environ: Mapping[str, str]) -> list[str]:
    """Return the options of ``docker run`` about the network: none, except for a container that may have to download.

    That one gets the variables of the call that lead to the hub. Without a value here, a variable has that of docker's
    program: a password in it is on no command line.
    """
    if not _may_download(job, environ):
        return ["--network=none"]
    shown = [f"--env={name}={place(path)}" for name, path in _certificates(job, environ).items()]
    return [*(f"--env={name}" for name in _NETWORK if name in environ), *shown]


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
    options = []
    for name in named_files(job, environ):
        for source, target in _sources(name, is_code=name == job.directory):
            if any(character in source + target for character in _SPECIAL):
                raise UsageError(
                    f"{source!r} cannot be shown to a container, because its name has a comma, a quotation mark or a "
                    "line break; rename it"
                )
            options.append(f"--mount=type=bind,source={source},target={target},readonly")
    return options


def _sources(name: str, is_code: bool) -> Iterator[tuple[str, str]]:
    """What to mount, and where, so that a container sees ``name``: of a checkpoint in Hugging Face's cache, which has
    links to files in another directory, each file.
    """
    try:
        path = Path(name).expanduser().absolute().resolve(strict=True)
        is_snapshot = path.parent.name == "snapshots" and path.is_dir()
        root = path.parents[1] if is_snapshot else path
        for each in (path, path / "workload.py") if is_code else _tree(path):
            found = each.resolve()
            if root not in (found, *found.parents):
                raise UsageError(
                    f"{each} is a link out of {root}, and a container is shown only what is in it: put a copy of "
                    f"{each.readlink()} in its place"
                )
            if found.exists():
                _check_readable(found, root)
                if is_snapshot and found.is_file():
                    yield str(found), f"{place(name)}/{each.relative_to(path)}"
    except FileNotFoundError:
        return  # the worker says so
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        reason = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise UsageError(f"{name} cannot be shown to a container: {reason}; name another file") from error
    if not is_snapshot:
        yield str(path), place(name)


def _tree(path: Path) -> Iterator[Path]:
    """``path`` and what lies below it; hidden files are of no interest."""
    yield path
    for directory, directories, files in os.walk(path):
        directories[:] = [each for each in directories if not each.startswith(".")]
        yield from (Path(directory, each) for each in (*directories, *files) if not each.startswith("."))


def _check_readable(path: Path, root: Path) -> None:
    """Raise ``UsageError`` unless the user of the containers can read ``path``, which is, or lies below, ``root``."""
    about = path.stat()
    is_directory = stat.S_ISDIR(about.st_mode)
    if not is_directory and not stat.S_ISREG(about.st_mode):
        raise UsageError(f"{path} is neither a file nor a directory, so it cannot be shown to a container")
    shift = 6 if about.st_uid == USER else 3 if about.st_gid == USER else 0
    needed = 0o5 if is_directory else 0o4
    if about.st_mode >> shift & needed != needed:
        options = "-R a+rX" if root.is_dir() else "a+r"
        raise UsageError(
            f"{path} cannot be read in a container, which runs as user {USER}: run 'chmod {options} "
            f"{shlex.quote(str(root))}' (the directories above it may stay closed)"
        )

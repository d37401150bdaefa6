"""Which files of this machine a worker in a container needs, and the options that show them to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from modelzoo.errors import UsageError
from modelzoo.records.protocol import Job, PrepareJob, ReferenceJob, ValidateJob
from modelzoo.setting import Setting
from modelzoo.workload.discovery import CHECKOUT, STANDARD_WORKLOADS
from modelzoo.workload.weights import SOURCES

IMAGE_ROOT = Path("/modelzoo")
"""Where an image of the suite has its workloads."""
_IN_IMAGES = (*STANDARD_WORKLOADS, "examples")
"""What the Dockerfile copies there."""


def image_directory(directory: str) -> str:
    """Return where an image has the workload of ``directory``: its own copy if it has one, else the same path."""
    path = Path(directory)
    if path.is_relative_to(CHECKOUT):
        inside = path.relative_to(CHECKOUT)
        if inside.parts and inside.parts[0] in _IN_IMAGES:
            return str(IMAGE_ROOT / inside)
    return directory


def mount_options(job: Job, environ: Mapping[str, str]) -> list[str]:
    """Return the options of ``docker run`` that show the files of ``job`` at their own paths, read-only.

    Args:
        job: as for a worker on this machine.
        environ: the environment of the call.

    Raises:
        UsageError: a path has a comma, which these options cannot express.
    """
    paths: list[Path] = []
    for path in _needed(job, environ):
        paths += [each for each in (path, *_linked(path)) if each.exists() and each not in paths]
    options = []
    for path in paths:
        if any(parent in paths for parent in path.parents):
            continue
        if "," in str(path):
            raise UsageError(f"{path} cannot be shown to a container, because its name has a comma; rename it")
        options.append(f"--mount=type=bind,source={path},target={path},readonly")
    return options


def _needed(job: Job, environ: Mapping[str, str]) -> Iterator[Path]:
    if isinstance(job, ReferenceJob):
        return
    if image_directory(job.directory) == job.directory:
        yield Path(job.directory)
    yield from _files(job.settings if isinstance(job, PrepareJob) else (job.resolved,))
    if isinstance(job, PrepareJob):
        yield from (Path(each.weights.path) for each in job.earlier if each.weights is not None)
        if environ.get("MODELZOO_WEIGHTS"):
            yield Path(environ["MODELZOO_WEIGHTS"]).expanduser().absolute()
    else:
        yield Path(job.weights.path)
    if isinstance(job, ValidateJob) and job.request.data is not None:
        yield Path(job.request.data)


def _files(settings: Sequence[Setting]) -> Iterator[Path]:
    for setting in settings:
        if setting.weights not in SOURCES:
            yield Path(setting.weights)
        if setting.input is not None:
            yield Path(setting.input)


def _linked(path: Path) -> Iterator[Path]:
    """What the links in directory ``path`` point to outside of it; the caches of the hubs consist of such links."""
    for child in path.iterdir() if path.is_dir() else ():
        if child.is_symlink():
            target = Path(os.path.normpath(path / child.readlink()))
            if path not in target.parents:
                yield target

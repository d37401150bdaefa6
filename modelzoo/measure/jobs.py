"""What the parent gives its workers: jobs, and the environment variables that they need from the start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional

from modelzoo.errors import KINDS, ModelzooError
from modelzoo.machine import environment
from modelzoo.machine.cpu import usable_threads
from modelzoo.machine.environment import OPENMP_AND_BLAS_THREADS
from modelzoo.measure.launcher import LocalLauncher
from modelzoo.records.protocol import Assignment, Preparation, PrepareJob
from modelzoo.records.run import EnvironmentChanges, Prepared
from modelzoo.setting import Setting
from modelzoo.workload import Workload


@dataclass(frozen=True)
class JobEnvironment:
    """All environment variables of a worker, and what was changed in those of the call."""

    variables: Mapping[str, str]
    changes: EnvironmentChanges


def prepare_job(
    workload: Workload,
    settings: tuple[Setting, ...],
    environ: Mapping[str, str] = os.environ,
    earlier: tuple[Preparation, ...] = (),
) -> PrepareJob:
    """Return the job that resolves ``settings``.

    Args:
        environ: the variables that the worker inherits.
        earlier: what other workers have resolved.

    Raises:
        UsageError: the environment sets a math mode that oneDNN does not know.
    """
    return PrepareJob(
        directory=str(workload.directory),
        settings=settings,
        parent=os.getpid(),
        math_mode=environment.inherited_math_mode(environ),
        earlier=earlier,
    )


def assignment(workload: Workload, asked: Setting, found: Preparation, environment: JobEnvironment) -> Assignment:
    """Return what a worker needs to run the setting ``asked``.

    Raises:
        ModelzooError: the setting could not be prepared.
    """
    return Assignment(
        directory=str(workload.directory),
        asked=asked,
        prepared=required(found),
        parent=os.getpid(),
        environment=environment.changes,
        math_mode=found.math_mode,
    )


def required(found: Preparation) -> Prepared:
    """Return what was prepared, or raise the reason why nothing was."""
    if found.prepared is None:
        raise KINDS.get(found.error_kind, ModelzooError)(found.error or "the setting was not resolved")
    return found.prepared


def prepare_environment(environ: Optional[Mapping[str, str]] = None) -> JobEnvironment:
    """Return the environment of a process that times nothing: plain fp32, with this machine's number of threads."""
    return job_environment(dict.fromkeys(OPENMP_AND_BLAS_THREADS, str(usable_threads().count)), environ)


def job_environment(wanted: Mapping[str, str], environ: Optional[Mapping[str, str]] = None) -> JobEnvironment:
    """Return the environment of a worker: what it inherits, without its fast-math variables, and ``wanted``.

    Args:
        wanted: what the engine needs for the setting. Fast math is among them only if it was asked for.
        environ: what it inherits: ``Launcher.environment``, by default that of a worker on this machine.
    """
    inherited = LocalLauncher().environment() if environ is None else environ
    variables, changes = environment.worker_environment(inherited, wanted)
    variables["PYTHONUNBUFFERED"] = "1"
    variables["TOKENIZERS_PARALLELISM"] = "false"
    return JobEnvironment(variables, changes)

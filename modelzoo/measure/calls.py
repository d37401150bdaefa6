"""Jobs that one process does on its own: resolve settings, and judge predictions. The parent's side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from modelzoo.errors import ModelzooError
from modelzoo.measure.jobs import assignment, job_environment, prepare_environment, prepare_job
from modelzoo.measure.launcher import Launcher
from modelzoo.measure.process import call
from modelzoo.measure.request import OnEvent, Request, listener
from modelzoo.records.exhibits import Exhibit
from modelzoo.records.protocol import Judged, Preparation, SettingsPrepared, ValidateJob
from modelzoo.records.run import ValidityReport
from modelzoo.records.validity import ValidityRequest
from modelzoo.setting import labels


def prepare(request: Request, on_event: OnEvent) -> tuple[Preparation, ...]:
    """Resolve all settings of ``request`` and their weights, in one process for each launcher.

    The processes on this machine come first: containers are shown the weights that they found. If a process itself
    fails, each of its settings gets its error.

    Returns:
        One entry per setting, in the order of the settings.
    """
    launchers = [request.launcher_of(setting) for setting in request.settings]
    found: dict[int, Preparation] = {}
    for launcher in sorted(dict.fromkeys(launchers), key=lambda each: not each.is_local):
        indices = [index for index, each in enumerate(launchers) if each == launcher]
        found.update(zip(indices, _prepare(request, launcher, indices, tuple(found.values()), on_event)))
    return tuple(found[index] for index in range(len(request.settings)))


def _prepare(
    request: Request, launcher: Launcher, indices: Sequence[int], earlier: tuple[Preparation, ...], on_event: OnEvent
) -> tuple[Preparation, ...]:
    """Resolve the settings with these indices in one process."""
    listen = listener(request.workload.name, labels(request.settings)[indices[0]], 0, on_event)
    settings = tuple(request.settings[index] for index in indices)
    try:
        environ = launcher.environment()
        job = prepare_job(request.workload, settings, environ, earlier)
        return call(launcher, job, prepare_environment(environ).variables, SettingsPrepared, listen).settings
    except ModelzooError as problem:
        return (Preparation(error=str(problem), error_kind=type(problem).__name__),) * len(settings)


def validate(
    request: Request, validity: ValidityRequest, on_event: OnEvent, on_exhibit: Callable[[Exhibit], None]
) -> ValidityReport:
    """Judge the only setting of ``request`` in a fresh process, with fp32 as the reference.

    Raises:
        ModelzooError: it could not be judged.
    """
    (setting,) = request.settings
    (found,) = prepare(request, on_event)
    launcher = request.launcher_of(setting)
    environment = job_environment(found.validation_variables, launcher.environment())
    job = ValidateJob(assignment(request.workload, setting, found, environment), validity)
    listen = listener(request.workload.name, setting.label, 0, on_event, on_exhibit)
    return call(launcher, job, environment.variables, Judged, listen).report

"""What measuring and validating need from an inference framework.

``modelzoo.measure`` and ``modelzoo.validity`` use these protocols only. The life of an engine in a worker process::

    engine = create_engine("torch")
    engine.load()                                  # imports the framework
    engine.check(setting)                          # fails early if the setting cannot run here
    resolved = engine.resolve(setting, batch=1, threads=2)
    session = engine.open(resolved)
    with session.active():                         # process-wide switches hold
        with engine.explained_errors():
            inputs = workload.inputs(request)
            model = session.load(workload, weights, inputs)
        args = model.prepare(inputs.args)
        with model.explained_errors():
            model.call(*args)                      # timed by a clock

An engine need not import torch. The module that defines it must not import its framework either, so that an engine can
be created and asked for ``variables`` before the framework's libraries may be loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Protocol, TypeVar, Union

from modelzoo.records.canary import Canary
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.libraries import Libraries
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.workload import Count, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.workload.declaration import Inputs, Workload

T = TypeVar("T")


@dataclass(frozen=True)
class Unavailable:
    """An observation that an engine cannot make; ``reason`` is one line for the user."""

    reason: str


Observed = Union[T, Unavailable]
"""An observation, or the reason why there is none."""


def value_and_problem(observed: Observed[T]) -> tuple[T | None, str | None]:
    """Split ``observed`` into the value and the reason why there is none; exactly one of them is ``None``."""
    if isinstance(observed, Unavailable):
        return None, observed.reason
    return observed, None


class DeviceEvent(Protocol):
    """A point in a device's queue of work, like ``torch.cuda.Event``."""

    def record(self) -> None:
        """Put the event into the queue."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this event to ``other``, an event of the same device; both must have completed."""


class AsynchronousDevice(Protocol):
    """An accelerator that works asynchronously, like ``torch.cuda``."""

    def Event(self, *, enable_timing: bool) -> DeviceEvent:  # noqa: N802 - torch's name
        """Create an event."""

    def synchronize(self) -> None:
        """Wait until the device has done everything that was issued."""


class Model(Protocol):
    """A model that is ready to run. Its methods are called while its session is active."""

    @property
    def compile_seconds(self) -> float | None:
        """How long compiling took; ``None`` if nothing was compiled."""

    @property
    def module(self) -> Any:
        """The ``torch.nn.Module`` whose layers can be hooked while ``predict`` runs; ``None`` if there is none."""

    @property
    def call(self) -> Callable[..., Any]:
        """Run one forward pass on prepared arguments. This is what is timed: it does nothing else."""

    def prepare(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Convert a workload's arguments (``Inputs.args``) to what ``call`` takes, and move them to the device."""

    def predict(self, *args: Any) -> Any:
        """Run one forward pass on a workload's arguments, and return its output as the workload's judge expects it.

        Raises:
            UsageError: the model cannot run this way.
        """

    def explained_errors(self) -> AbstractContextManager[None]:
        """Turn errors of ``call`` that the user can do something about into a ``UsageError``."""

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        """Count what determines the amount of work (``Workload.count``), for prepared ``args``; may be empty."""

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        """Say which kernels one call on prepared ``args`` runs, without attributing time to them.

        It is fast, and shows that a process runs the same kernels as one that was audited.
        """

    def audit(self, args: tuple[Any, ...], *, passes: int, canary: Canary | None) -> Observed[Evidence]:
        """Prove which kernels ran, in which precision, by observing ``passes`` calls on prepared ``args``."""

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        """Count the operations of one pass on prepared ``args``."""

    def profile(self, args: tuple[Any, ...], *, trace: Path | None, evidence: Evidence | None) -> Observed[Profile]:
        """Profile a few passes on prepared ``args``; write a trace to ``trace`` if it is given."""


class Session(Protocol):
    """One setting in one process. Several sessions may exist; at most one of them is active at a time."""

    @property
    def device(self) -> AsynchronousDevice | None:
        """How to wait for the device; ``None`` if a call has completed when it returns."""

    def active(self) -> AbstractContextManager[tuple[str, ...]]:
        """Apply the process-wide switches of the setting, and restore them on exit; can be entered repeatedly.

        Yields the switches that were set, as text for the record.

        Raises:
            EnvironmentProblem: the backend is not available.
        """

    def load(self, workload: Workload, weights: Weights, inputs: Inputs) -> Model:
        """Load the workload's model with ``weights``, and make it ready to run (converted, compiled).

        Args:
            workload: what to run.
            weights: resolved weights, on this machine.
            inputs: a batch that determines the shapes for compiling.

        Raises:
            WeightsError: the weights cannot be read or do not fit the model.
            UsageError: the model cannot run this way.
            EnvironmentProblem: this framework or machine does not support the mode.
        """

    def canary(self) -> Observed[Canary]:
        """Run a few operators under this setting and compare them with fp64."""


class Engine(Protocol):
    """An inference framework."""

    @property
    def name(self) -> str:
        """Its name in results."""

    def load(self) -> None:
        """Import the framework.

        Raises:
            EnvironmentProblem: it is not installed or cannot be loaded.
        """

    def versions(self) -> Mapping[str, str]:
        """Versions of the packages that affect results, by name; does not import them."""

    def libraries(self) -> Libraries | None:
        """The numerical libraries of this process; ``None`` if the engine cannot tell. Call it after ``load``."""

    def check(self, setting: Setting) -> None:
        """Check that this framework and machine have the device and mode of ``setting``. Call it after ``load``.

        Raises:
            EnvironmentProblem: the device or the mode is not available.
            UsageError: the engine does not support the setting.
        """

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        """Decide everything that ``setting`` leaves open. Call it after ``load``.

        Resolving the same setting again in another process on the same machine gives the same answer.

        Args:
            setting: as asked for, with the values of all of the workload's options.
            batch: the workload's default.
            threads: the machine's default.
            math_mode: see ``modelzoo.machine.worker_environment.inherited_math_mode``.
        """

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        """Environment variables that a worker which runs ``setting`` needs before its libraries are loaded.

        Args:
            setting: what the worker runs.
            with_reference: the worker runs ``reference(setting)`` too.
        """

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        """The fp32 setting that ``setting`` is validated against, as it can run in this process."""

    def explained_errors(self) -> AbstractContextManager[None]:
        """Turn errors from a broken installation into an ``EnvironmentProblem``, while a workload creates its inputs
        and its model."""

    def open(self, setting: ResolvedSetting) -> Session:
        """Prepare this process for ``setting`` (threads, seed, device). Call it after ``load``.

        Raises:
            EnvironmentProblem: the device is not available.
        """

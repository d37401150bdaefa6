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

Three kinds of processes use an engine:

1. ``prepare`` resolves the setting and calls ``export``. An engine with a model format of its own converts the torch
   module there, once, by ``modelzoo.engines.export.store.export_once``, which also stores the batch and torch's
   outputs for it. torch may be imported, and several engines may be loaded side by side.
2. A measuring worker gets the ``Export`` and never imports torch: its inputs are the batch that was stored, as numpy
   arrays nested as the workload nests its tensors, and neither ``Workload.libraries`` nor ``Workload.inputs`` are
   used. After the timing of the first process of a setting, ``Model.outputs`` is compared with torch's outputs.
3. A judging worker has torch, and loads the model of ``Engine.reference`` (torch in fp32) beside the engine's.
   ``Model.predict`` gets torch tensors there, nested as the workload's arguments, and returns torch tensors nested as
   the workload's output. Every batch has the size that was exported, but detectors get pictures of other heights and
   widths.

An engine whose framework is installed in an environment of its own names its interpreter (``Engine.interpreter``).
Only measuring workers run in it. In the other two processes, ``load`` checks that the environment exists, and
``predict`` runs the model in a process of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import msgspec

from modelzoo.records.canary import Canary
from modelzoo.records.equipment import Accelerator as AcceleratorFacts
from modelzoo.records.equipment import Libraries
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.profile import Flops, Profile
from modelzoo.records.run_report import ChangedSwitch, Compilation
from modelzoo.records.workload import Count, Export, Weights
from modelzoo.setting import ResolvedSetting, Setting
from modelzoo.warning import WarningMessage
from modelzoo.workload.declaration import Inputs, Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.engines.export.source import Structure, TorchSource
    from modelzoo.evidence.recording import Phases


T = TypeVar("T")


class Unavailable(msgspec.Struct, frozen=True):
    """An observation that an engine cannot make; ``reason`` is one line for the user."""

    reason: str


Observed: TypeAlias = T | Unavailable
"""An observation, or the reason why there is none."""


def value_and_problem(observed: Observed[T]) -> tuple[T | None, str | None]:
    """Split ``observed`` into the value and the reason why there is none; exactly one of them is ``None``."""
    if isinstance(observed, Unavailable):
        return None, observed.reason
    return observed, None


class RawOutputs(msgspec.Struct, frozen=True):
    """What a model computes from its batch, as numpy arrays in fp32 or an integer type.

    Attributes:
        outputs: the arrays of the model's output, in the order of ``modelzoo.engines.export.source.flatten``.
        heads: the arrays that the raw heads of a detector return before NMS (``Workload.heads``), in the order of
            ``Batch.heads``; empty for other models.
        structure: how ``outputs`` are nested, if the model says it itself.
        expected: what the torch module computes from the batch in fp32, eager, if the model was made from one in this
            process; there is nothing else then that it could be compared with.
        changed: what it computes from inputs that differ slightly; empty if it is not known.
        rounded: what it computes with every number rounded to bf16, if that was asked for; empty if it is not known.
    """

    outputs: tuple[NDArray[Any], ...]
    heads: tuple[NDArray[Any], ...] = ()
    structure: Structure | None = None
    expected: tuple[NDArray[Any], ...] = ()
    changed: tuple[NDArray[Any], ...] = ()
    rounded: tuple[NDArray[Any], ...] = ()


class DeviceEvent(Protocol):
    """A point in a device's queue of work, like ``torch.cuda.Event``."""

    def record(self) -> None:
        """Put the event into the queue."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds from this event to ``other``, an event of the same device; both must have completed."""


class AsynchronousDevice(Protocol):
    """An accelerator that works asynchronously, like ``torch.cuda``."""

    @property
    def timed_events(self) -> bool:
        """Whether its events tell the time between them."""

    def Event(self, *, enable_timing: bool) -> DeviceEvent:  # noqa: N802 - torch's name
        """Create an event."""

    def synchronize(self) -> None:
        """Wait until the device has done everything that was issued."""


class Accelerator(AsynchronousDevice, Protocol):
    """An accelerator that can be watched while calls on it are timed."""

    @property
    def kind(self) -> str:
        """``cuda``, ``npu`` or ``xpu``."""

    @property
    def index(self) -> int:
        """Its number among those that the process can use."""

    def identifier(self) -> str | None:
        """The UUID that the driver knows it by; ``None`` if the framework does not tell it."""

    def describe(self) -> AcceleratorFacts:
        """What it is, for the record."""

    def reset_peak_memory(self) -> None:
        """Let ``peak_memory`` begin anew."""

    def peak_memory(self) -> int | None:
        """The most bytes that tensors have occupied since ``reset_peak_memory``; ``None`` if unknown."""


class Model(Protocol):
    """A model that is ready to run. Its methods are called while its session is active."""

    @property
    def compilation(self) -> Compilation | None:
        """What compiling took; ``None`` if nothing was compiled."""

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

        The arguments stay as they are, whatever the model does with them.

        Raises:
            UsageError: the model cannot run this way.
        """

    def outputs(self, args: tuple[Any, ...]) -> Observed[RawOutputs]:
        """Run one pass on prepared ``args`` as ``call`` does, and return all that it computes.

        It is called once, after the timing. The raw heads may come from a second model that is loaded from the same
        export.
        """

    def explained_errors(self) -> AbstractContextManager[None]:
        """Turn errors of ``call`` that the user can do something about into a ``UsageError``."""

    def stored_bytes(self) -> int | None:
        """Bytes of all parameters, with the scales of quantized ones, in the types in which the model holds them.

        ``None`` if they are not known.
        """

    def warnings(self) -> tuple[WarningMessage, ...]:
        """Return what is wrong with the model itself, as far as loading it and the passes since then have shown."""

    def counts(self, args: tuple[Any, ...], items: tuple[str, ...]) -> tuple[Count, ...]:
        """Count what determines the amount of work (``Workload.count``), for prepared ``args``; may be empty."""

    def kernels(self, args: tuple[Any, ...]) -> Observed[KernelDigest]:
        """Say which kernels one call on prepared ``args`` runs, without attributing time to them.

        It is fast, and shows that a process runs the same kernels as one that was audited.
        """

    def audit(self, args: tuple[Any, ...], *, canary: Canary | None, replay: bool = False) -> Observed[Evidence]:
        """Prove which kernels ran, in which precision, by observing a call on prepared ``args``.

        With ``replay``, call each product again and compare it with fp64, if the engine can; that takes seconds.
        """

    def flops(self, args: tuple[Any, ...]) -> Observed[Flops]:
        """Count the operations of one pass on prepared ``args``."""

    def profile(self, args: tuple[Any, ...], *, evidence: Evidence | None) -> Observed[Profile]:
        """Profile a few passes on prepared ``args``."""


@runtime_checkable
class ComposableModel(Model, Protocol):
    """A model whose forward passes can be put together to larger calls: generations of a language model."""

    def composed(self, compose: Callable[[Callable[..., Any]], Callable[..., Any]]) -> ComposableModel:
        """Return the same model with calls that ``compose`` makes of a function that runs one forward pass.

        What this model was composed of stays within. Kernels, operations and profiles are those of such a call.
        ``predict`` and ``outputs`` still run one forward
        pass.
        """

    def audit_phases(
        self, args: tuple[Any, ...], phases: Phases, *, canary: Canary | None
    ) -> tuple[Observed[Evidence], Mapping[str, tuple[Observed[Evidence], Observed[Flops]]]]:
        """Prove which kernels ran in a call, and in each of its phases, and count their operations, by name.

        On a CPU, the call is recorded once, and its products are called again, as by ``audit`` with ``replay``; of a
        phase with several passes, the operations are the mean. On an accelerator the call is observed as a whole only.

        Args:
            args: prepared, of one call.
            phases: told by the call which phase is running; ``composed`` must see to that.
            canary: what the canary showed.
        """

    def weight_bytes(self) -> int | None:
        """Bytes of the parameters that every forward pass reads as a whole; ``None`` if they are not known.

        The tables of embeddings, of which a pass reads some rows, are left out, unless another layer shares them.
        """


class Session(Protocol):
    """One setting in one process. Several sessions may exist; at most one of them is active at a time."""

    @property
    def device(self) -> Accelerator | None:
        """How to wait for the device; ``None`` if a call has completed when it returns."""

    def active(self) -> AbstractContextManager[tuple[str, ...]]:
        """Apply the process-wide switches of the setting, and restore them on exit; can be entered repeatedly.

        Yields the switches that were set, as text for the record.

        Raises:
            EnvironmentProblem: the backend is not available.
        """

    def load(self, workload: Workload, weights: Weights, inputs: Inputs, export: Export | None = None) -> Model:
        """Load the workload's model with ``weights``, and make it ready to run (converted, compiled).

        Args:
            workload: what to run.
            weights: resolved weights, on this machine.
            inputs: a batch that determines the shapes for compiling.
            export: what ``Engine.export`` returned; the weights are in it.

        Raises:
            WeightsError: the weights cannot be read or do not fit the model.
            UsageError: the model cannot run this way.
            EnvironmentProblem: this framework or machine does not support the mode.
        """

    def changed_switches(self) -> tuple[ChangedSwitch, ...]:
        """Compare the process-wide switches with what the setting asks for; empty if no model can change them."""
        return ()

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
            UsageError: the engine does not support the setting: a mode, memory format, backend or bf16 method that it
                lacks.
        """

    def resolve(self, setting: Setting, *, batch: int, threads: int, math_mode: str = "") -> ResolvedSetting:
        """Decide everything that ``setting`` leaves open. Call it after ``load``.

        Resolving the same setting again in another process on the same machine gives the same answer.

        Args:
            setting: as asked for, with the values of all of the workload's options.
            batch: the workload's default.
            threads: the machine's default.
            math_mode: see ``modelzoo.machine.environment.inherited_math_mode``.
        """

    def export(self, setting: ResolvedSetting, source: TorchSource) -> Export | None:
        """Convert the model of ``source`` into the engine's format, once for all processes of a call.

        Returns:
            ``None`` if the engine runs the torch module itself, or a workload of its own kind; its workers then make
            the inputs as the workload declares them.

        Raises:
            UsageError: the model cannot be converted; the message gives the reason.
            EnvironmentProblem: the exporter is not installed, or the cache cannot be written to.
        """
        return None

    def interpreter(self) -> str | None:
        """Absolute path of the interpreter that measuring workers need; ``None`` for the one that prepared them.

        Raises:
            EnvironmentProblem: the engine's environment does not exist; the message names the command that makes it.
        """
        return None

    def variables(self, setting: ResolvedSetting, *, with_reference: bool = False) -> Mapping[str, str]:
        """Environment variables that a worker which runs ``setting`` needs before its libraries are loaded.

        Args:
            setting: what the worker runs.
            with_reference: the worker runs ``reference(setting)`` too.
        """

    def reference(self, setting: ResolvedSetting) -> ResolvedSetting:
        """The fp32 setting that ``setting`` is validated against, as it can run in this process.

        Its ``engine`` says what runs it: torch, for an engine that runs exported models.
        """
        return setting.reference()

    def explained_errors(self) -> AbstractContextManager[None]:
        """Turn errors from a broken installation into an ``EnvironmentProblem``, while a workload creates its inputs
        and its model."""
        return nullcontext()

    def open(self, setting: ResolvedSetting) -> Session:
        """Prepare this process for ``setting`` (threads, seed, device). Call it after ``load``.

        Raises:
            EnvironmentProblem: the device is not available.
        """

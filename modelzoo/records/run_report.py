"""What a worker reports of a setting: what was prepared, where it ran, and what was timed and observed."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from modelzoo.frozen import PUBLIC, Argument, Message, Public
from modelzoo.plan import Plan
from modelzoo.records.canary import Canary, CanaryVerdict
from modelzoo.records.equipment import AcceleratorUse, Libraries
from modelzoo.records.evidence import Evidence, KernelDigest
from modelzoo.records.machine import CpuUsage, Machine, Natural, Seconds
from modelzoo.records.profile import Bound, Ceilings, DecodingBytes, Flops, Profile
from modelzoo.records.timing import Generated, PipelineStage, Timing
from modelzoo.records.workload import Count, Export, OutputAgreement, Weights
from modelzoo.setting import ResolvedSetting
from modelzoo.warning import WarningMessage


class EnvironmentChanges(msgspec.Struct, frozen=True):
    """What was done to a worker's environment variables.

    Attributes:
        removed: variables that were removed, with their values.
        applied: variables that were set.
    """

    removed: dict[str, Argument] = {}
    applied: dict[str, Argument] = {}


class Turn(msgspec.Struct, frozen=True):
    """A stretch in which this worker sampled while the other workers of its round waited.

    Attributes:
        start: seconds since the Unix epoch, by one clock for all workers of a machine.
        end: likewise.
        samples: number of samples taken in it; ``None`` if not recorded.
        cpu_seconds: CPU time of this process in it, of all threads; ``None`` if not recorded.
    """

    start: float
    end: float
    samples: int | None = None
    cpu_seconds: float | None = None


SwitchKind = Annotated[Literal["threads", "precision", "kernels"], PUBLIC]
"""What a process-wide switch decides."""


class ChangedSwitch(msgspec.Struct, frozen=True):
    """A process-wide switch that was not as the setting asks for when sampling had ended.

    Attributes:
        kind: what it decides.
        name: how torch calls it.
        asked: the value that the setting asks for.
        found: the value after the last sample.
    """

    kind: SwitchKind
    name: Public
    asked: Public
    found: Public


class Prepared(msgspec.Struct, frozen=True):
    """What is decided once for all processes of a setting.

    Attributes:
        setting: as resolved: every value is filled in.
        weights: the weights that are used.
        export: the model in the format of the engine; ``None`` if the engine runs the torch module itself.
    """

    setting: ResolvedSetting
    weights: Weights
    export: Export | None = None


class Provenance(msgspec.Struct, frozen=True):
    """What a process ran with, and on what.

    Attributes:
        engine: name of the inference framework.
        versions: the versions of all libraries that affect the result, by name; empty if not recorded.
        digest: SHA-256 of the workload's file, with the modules beside it that were imported; together with the digests
            of the weights and the inputs it says what ran.
        machine: the machine that it ran on.
        libraries: the numerical libraries in the process.
        fingerprint: equal on machines of equal speed; see ``modelzoo.records.machine.fingerprint``.
        cpus: the logical CPUs that the process could run on.
        environment: what was done to the environment variables.
    """

    machine: Machine
    engine: Public = "torch"
    versions: dict[str, Message] = {}
    digest: Public | None = None
    libraries: Libraries | None = None
    fingerprint: Public | None = None
    cpus: tuple[int, ...] | None = None
    environment: EnvironmentChanges = EnvironmentChanges()


PREFILL, DECODE = "prefill", "decode"
"""Phases of a generation: the prompt at once, and one token after the other."""


class GenerationPhase(msgspec.Struct, frozen=True):
    """One phase of a generation, looked at alone.

    Attributes:
        name: ``prefill``, or ``decode`` for the step in the middle of a generation.
        evidence: which kernels ran in which precision.
        evidence_problem: why there is no evidence.
        flops: its operations; ``None`` if they could not be counted.
    """

    name: Public
    evidence: Evidence | None = None
    evidence_problem: Message | None = None
    flops: Flops | None = None


class Observed(msgspec.Struct, frozen=True):
    """What was looked at after the timing; each part may be missing, some for a reason.

    Attributes:
        canary: the operators' errors against fp64; ``None`` if the engine has no canary.
        canary_problem: why there is no canary.
        canary_verdict: what the errors show.
        kernels: which kernels a pass called (of a generation: the prefill and its first step); without ``evidence`` it
            shows whether they were those of a process that was audited.
        evidence: which kernels ran in which precision; the first processes of a setting are audited.
        evidence_problem: why there is no evidence.
        counts: numbers that the model's work depends on; one process per setting counts them.
        flops: the operations of one pass; one process per setting counts them.
        flops_problem: why there are none.
        phases: of a generation; the first process of a setting looks at each of them alone. ``flops`` of the
            whole and, on a CPU, ``evidence`` are combined from them: the step is representative of all steps.
        decoding: the bytes that a step of a language model reads; one process per setting counts them.
        profile: operator and layer times, with ``--profiling``.
        profile_problem: why there is no profile.
        agreement: how far the outputs are from those of the torch module in fp32; one process per setting compares
            them, if it runs another model or another way.
        agreement_problem: why they were not compared.
        warnings: of the model itself: weights that were converted, inputs that it changes, outputs that differ from
            pass to pass.
    """

    canary: Canary | None = None
    canary_problem: Message | None = None
    canary_verdict: CanaryVerdict | None = None
    kernels: KernelDigest | None = None
    evidence: Evidence | None = None
    evidence_problem: Message | None = None
    counts: tuple[Count, ...] = ()
    flops: Flops | None = None
    flops_problem: Message | None = None
    phases: tuple[GenerationPhase, ...] = ()
    decoding: DecodingBytes | None = None
    profile: Profile | None = None
    profile_problem: Message | None = None
    agreement: OutputAgreement | None = None
    agreement_problem: Message | None = None
    warnings: tuple[WarningMessage, ...] = ()


class SideReport(msgspec.Struct, frozen=True):
    """One of the two models of a judgement: how it ran, and what proves its precision.

    Attributes:
        setting: as resolved.
        observed: the canary and the kernels of a pass.
    """

    setting: ResolvedSetting | None = None
    observed: Observed = Observed()


class Compilation(msgspec.Struct, frozen=True):
    """What made a model ready to run after its weights were loaded. Not stored as such: see ``RunReport``.

    Attributes:
        seconds: how long compiling, tracing, capturing or optimizing took, with the calls that belong to it.
        first_answer: seconds until the first of these calls had returned; ``None`` if none belongs to it.
        libraries: shared libraries that were compiled; 0 if all came from a cache, ``None`` without such a cache.
        calibration: SHA-256 of the batches from which a static recipe took the ranges.
    """

    seconds: float
    first_answer: float | None = None
    libraries: int | None = None
    calibration: str | None = None


class RunReport(msgspec.Struct, frozen=True):
    """What a worker reports of the setting that it ran. Times in seconds, memory in bytes.

    Attributes:
        workload: the workload's name.
        title: what the workload is.
        unit: what its throughput counts, for example ``images``.
        prepared: the setting as resolved, and its weights.
        provenance: what it ran with, and on what.
        plan: how long it was to measure.
        items: what each item of the batch is.
        inputs_digest: SHA-256 of the inputs.
        calibration_digest: SHA-256 of the batches from which the ranges of a model with a static int8 recipe were
            taken; ``None`` for others.
        import_seconds: time to import the engine and the workload's libraries.
        build_seconds: time to build the model and load its weights.
        compile_seconds: time to compile, trace or optimize the model, ``None`` in eager mode.
        first_answer_seconds: from the loaded weights to the first output, compiling included; ``None`` under an
            emulator.
        compiled_libraries: shared libraries that the compiler wrote; 0 if all came from its cache, ``None`` if the mode
            has no such cache.
        switches: process-wide switches that were set, by name.
        changed_switches: those that the model or a library has changed since.
        timing: ``None`` under an emulator, where nothing is timed.
        turns: when it sampled, if other workers took turns with it.
        pipeline: the stages that were timed, the model and copies included; ``None`` if the model alone was.
        generation: what a language model generated in each call; ``None`` if a call is one forward pass.
        usage: how busy the CPUs were while it sampled.
        accelerator: how it used the accelerator; ``None`` on a CPU.
        observed: what was looked at after the timing.
        peak_memory: the most that this process had occupied when the timing ended.
        weight_bytes: size of the model's parameters, with the scales of quantized ones, in the types in which the model
            holds them; ``None`` if it is not known.
        ceilings: the measured limits of the machine, if 'modelzoo doctor' has measured them.
        bound: how near the run came to this machine's peaks.
        warnings: what may distort the result.
    """

    workload: Public
    title: Message
    unit: Public
    prepared: Prepared
    provenance: Provenance
    plan: Plan
    items: tuple[str, ...]
    import_seconds: Seconds
    build_seconds: Seconds
    compile_seconds: float | None
    switches: tuple[Public, ...]
    timing: Timing | None
    usage: CpuUsage | None
    observed: Observed
    peak_memory: Natural
    inputs_digest: Public | None = None
    calibration_digest: Public | None = None
    weight_bytes: int | None = None
    first_answer_seconds: float | None = None
    compiled_libraries: int | None = None
    changed_switches: tuple[ChangedSwitch, ...] = ()
    turns: tuple[Turn, ...] | None = None
    pipeline: tuple[PipelineStage, ...] | None = None
    generation: Generated | None = None
    accelerator: AcceleratorUse | None = None
    ceilings: Ceilings | None = None
    bound: Bound | None = None
    warnings: tuple[WarningMessage, ...] = ()

    @property
    def first_answer(self) -> float | None:
        """``first_answer_seconds``; in results without it, the first call of an eager model, which is the same."""
        if self.first_answer_seconds is not None or self.timing is None:
            return self.first_answer_seconds
        is_eager = self.provenance.engine == "torch" and self.compile_seconds is None
        return self.timing.cold_start if is_eager else None

    @property
    def busy_cores(self) -> float | None:
        """CPU time ÷ wall time of this process while it sampled; ``None`` if that was not recorded."""
        turns = self.turns or ()
        seconds = sum(turn.end - turn.start for turn in turns)
        known = [turn.cpu_seconds for turn in turns if turn.cpu_seconds is not None]
        return sum(known) / seconds if seconds > 0 and len(known) == len(turns) else None

    @property
    def setting(self) -> ResolvedSetting:
        """The setting as resolved."""
        return self.prepared.setting

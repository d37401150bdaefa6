"""One fresh process that measures one workload under one setting.

The parent starts ``python -m modelzoo.measure.worker`` with a scrubbed environment, writes one job as JSON to
its standard input and reads messages, one JSON object a line, from a pipe of their own: whatever
libraries print cannot disturb them. A worker is started, never forked, so no library state leaks.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Callable

from modelzoo import stats
from modelzoo.engines.torch import compilation, devices, execution, precision, switches
from modelzoo.engines.torch.bf16_method import resolve_bf16_method
from modelzoo.errors import EnvironmentProblem, ModelzooError, WorkerError
from modelzoo.evidence import canary as canaries
from modelzoo.machine import facts as machine
from modelzoo.machine.diagnosis import usage_warnings
from modelzoo.machine.usage import CpuUsageMonitor
from modelzoo.measure import sampler
from modelzoo.measure.clock import clock_for
from modelzoo.records.canary import Canary
from modelzoo.records.timing import StopReason, Timing, WarmUpEnd
from modelzoo.records.workload import Count, Weights
from modelzoo.results.store import plain
from modelzoo.setting import BACKEND_VARIABLE, Plan, Setting
from modelzoo.warning import WarningCode, WarningMessage, warning_for
from modelzoo.workload import discovery
from modelzoo.workload.declaration import InputRequest, Inputs, Workload
from modelzoo.workload.weights import load_model, resolve_weights

AUDIT_SECONDS = 2.0
"""Audited passes: two, or one where a pass takes longer than this."""

Send = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Report:
    """What a measuring worker says of its run; stored as ``Run.report``.

    Times in seconds, memory in bytes. ``phases`` is ``None`` under an emulator, where nothing is
    timed. ``setting`` is complete: every value that was left to the worker is filled in.
    """

    workload: str
    title: str
    unit: str
    setting: dict[str, Any]
    plan: Plan
    weights: Weights
    items: tuple[str, ...]
    phases: dict[str, Any] | None
    import_seconds: float
    build_seconds: float
    compile_seconds: float | None
    canary: Canary
    canary_word: str
    switches: tuple[str, ...]
    environment: dict[str, dict[str, str]]
    counts: tuple[Count, ...]
    peak_memory: int
    machine: machine.Machine
    libraries: Any
    load: Any
    evidence: Any
    flops: Any
    bound: Any
    profile: Any
    advice: tuple[WarningMessage, ...]


def main() -> int:
    """Read a job, do it, send its messages; the entry point of the process."""
    pipe = os.fdopen(int(sys.argv[1]), "w", buffering=1)

    def send(message: Mapping[str, Any]) -> None:
        pipe.write(json.dumps(plain(dict(message))) + "\n")

    job = json.loads(sys.stdin.readline())
    _die_with(int(job["parent"]))
    try:
        send({"done": KINDS[job["kind"]](job, send)})
    except ModelzooError as error:
        send({"error": str(error), "error_kind": type(error).__name__})
        return 2
    except MemoryError:
        send({"error": "out of memory; use a smaller --batch", "error_kind": WorkerError.__name__})
        return 2
    except RuntimeError as error:
        # torch reports a failed allocation as a RuntimeError.
        if "can't allocate memory" not in str(error) and "out of memory" not in str(error):
            raise
        send({"error": "out of memory; use a smaller --batch", "error_kind": WorkerError.__name__})
        return 2
    return 0


def _die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, however that comes about (Linux)."""
    import ctypes
    import signal

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it ended before that call
            os._exit(1)


def prepare(job: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Resolve the weights once for all processes of a call, so that all of them run the same.

    What the user may have got wrong is tried first: it should not cost the making of weights.
    """
    _import_torch()
    work, setting = _job(job)
    devices.select_device(setting.device)
    compilation.require_mode(setting.mode)
    send({"phase": "weights"})
    with _missing_torchvision():
        if setting.input is not None:
            work.inputs(InputRequest(1, setting.seed, Path(setting.input), setting.options))
        return asdict(resolve_weights(work, setting.options, setting.weights, setting.seed))


def measure(job: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Build, time, and only then look at what ran."""
    started = perf_counter()
    torch = _import_torch()
    import_seconds = perf_counter() - started
    work, setting = _job(job)
    clock = clock_for(devices.select_device(setting.device))
    threads = int(job["threads"])
    torch.set_num_threads(threads)
    torch.manual_seed(setting.seed)
    bf16_method = _bf16_method(setting, job)
    setting = setting.replace(threads=threads, batch=setting.batch or work.batch, bf16_method=bf16_method)
    weights = Weights(**job["weights"])
    plan = Plan(**job["plan"])

    def progress(phase: str, count: int, half_width: float) -> None:
        send({"phase": phase, "count": count, "half_width": half_width})

    waited = 0.0

    def pause(precise: bool) -> bool:
        nonlocal waited
        send({"phase": "pause", "precise": precise})
        since = perf_counter()
        go_on = sys.stdin.readline().strip() == "turn"
        waited += perf_counter() - since
        return go_on

    facts = machine.read_machine()
    send({"phase": "load"})
    started = perf_counter()
    with torch.inference_mode(), switches.applied(setting) as switched:
        with _missing_torchvision():
            model = load_model(work, setting.options, weights)
            inputs = work.inputs(_input_request(setting, weights))
        send({"phase": "build"})
        executable = execution.build(work, model, inputs, setting)
        args = executable.prepare(inputs.args)
        compile_seconds = executable.compile_seconds
        build_seconds = perf_counter() - started - (compile_seconds or 0.0)
        watch = CpuUsageMonitor(int(job["parent"])).start()
        try:
            if facts.emulator:
                phases = None
                executable.call(*args)
            else:
                turns = pause if job["turns"] else None
                phases = sampler.measure(lambda: executable.call(*args), clock, plan, progress, turns)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            raise execution.refusal(work, setting, error) from error
        load = watch.stop(waited)
        send({"phase": "audit"})
        is_cast = bf16_method == "cast"
        with precision.autocast(setting):
            canary = canaries.run_canary(setting.device, is_cast)
            counts = _counts(work, executable.model, Inputs(args, inputs.items))
        evidence = _evidence(executable, args, canary, setting, bf16_method, phases) if job["audit"] else None

        def eager() -> Any:
            with precision.autocast(setting):
                return executable.model(*args)

        flops = _flops(eager) if job["audit"] and job["first"] else None
        profile = None
        if job["profiling"] and job["first"]:
            from modelzoo.evidence import profile as profiling

            send({"phase": "profile"})
            profile = profiling.operator_profile(
                lambda: executable.call(*args),
                executable.model if setting.mode == "eager" else None,
                trace=Path(job["trace"]) if job["trace"] else None,
                evidence=evidence,
                eager=eager,
            )
    from modelzoo.machine import libraries

    word = canary.verdict(setting.precision)
    advice = _warnings(setting, bf16_method, weights, canary, word, counts, phases, load, facts, job["environment"])
    advice += evidence.warnings if evidence is not None else ()
    report = Report(
        workload=work.name,
        title=work.title,
        unit=work.unit,
        setting={**setting.to_json(), "bf16_method": bf16_method},
        plan=plan,
        weights=weights,
        items=inputs.items,
        phases=_phases(phases),
        import_seconds=import_seconds,
        build_seconds=build_seconds,
        compile_seconds=compile_seconds,
        canary=canary,
        canary_word=word,
        switches=switched,
        environment={key: dict(job["environment"][key]) for key in ("removed", "applied")},
        counts=counts,
        peak_memory=_peak_memory(),
        machine=facts,
        libraries=libraries.read_libraries(),
        load=load,
        evidence=evidence,
        flops=flops,
        bound=_bound(flops, phases, facts, setting, torch),
        profile=profile,
        advice=advice,
    )
    return asdict(report)


def validate(job: Mapping[str, Any], send: Send) -> dict[str, Any]:
    """Judge the setting's predictions against fp32's; see ``modelzoo.validity.sides``."""
    from modelzoo.validity import sides as validation

    torch = _import_torch()
    work, setting = _job(job)
    devices.select_device(setting.device)
    torch.set_num_threads(int(job["threads"]))
    torch.manual_seed(setting.seed)
    bf16_method = _bf16_method(setting, job)
    setting = setting.replace(threads=int(job["threads"]), bf16_method=bf16_method, batch=setting.batch or work.batch)
    weights = Weights(**job["weights"])
    send({"phase": "build"})
    with torch.inference_mode(), _missing_torchvision():
        inputs = work.inputs(_input_request(setting, weights))
        return validation.validate(work, setting, weights, inputs, job["request"], send)


def _job(job: Mapping[str, Any]) -> tuple[Workload, Setting]:
    work = discovery.load_workload(Path(job["directory"]))
    setting = Setting(**job["setting"])
    return work, setting.replace(options=work.option_values(setting.options))


def _bf16_method(setting: Setting, job: Mapping[str, Any]) -> str | None:
    import torch

    return resolve_bf16_method(
        setting.replace(bf16_method=job["environment"]["bf16_method"] or setting.bf16_method),
        architecture=platform.machine(),
        has_onednn=torch.backends.mkldnn.is_available(),
    )


def _import_torch() -> Any:
    from modelzoo.machine import installation

    torch = installation.import_torch()
    if not hasattr(torch, "inference_mode"):
        raise EnvironmentProblem(f"torch {torch.__version__} is too old; use 1.13 or newer")
    return torch


@contextmanager
def _missing_torchvision() -> Iterator[None]:
    """Where a model cannot be built because torchvision does not go with torch, say that instead.

    Not checked up front: importing torchvision takes a second, and not every workload needs it.
    """
    try:
        yield
    except (ImportError, RuntimeError, AttributeError) as error:
        from modelzoo.machine import installation

        installation.import_torchvision()
        if isinstance(error, ImportError):
            raise EnvironmentProblem(f"{error}; run ./scripts/run once, then use .venv/bin/python") from error
        raise


def _input_request(setting: Setting, weights: Weights) -> InputRequest:
    place = Path(weights.path)
    return InputRequest(
        batch=setting.batch or 1,
        seed=setting.seed,
        path=Path(setting.input) if setting.input else None,
        options=setting.options,
        model_path=place if place.is_dir() else None,
    )


def _counts(work: Workload, model: Any, inputs: Inputs) -> tuple[Count, ...]:
    return tuple(work.count(model, inputs)) if work.count is not None else ()


def _evidence(
    executable: execution.Executable,
    args: tuple[Any, ...],
    canary: Canary,
    setting: Setting,
    bf16_method: str | None,
    phases: Timing | None,
) -> Any:
    from modelzoo.evidence import audit
    from modelzoo.evidence import verdict as evidence

    slow = phases is None or median(phases.steady) > AUDIT_SECONDS / 2
    seen = audit.run_audit(lambda: executable.call(*args), 1 if slow else 2)
    return evidence.build_evidence(seen, canary, setting.precision, bf16_method)


def _flops(eager: Callable[[], Any]) -> Any:
    """Operations and bytes of one pass, or ``None`` where this torch cannot record them."""
    from modelzoo.evidence import flops

    try:
        return flops.count_flops(eager)
    except Exception:  # counting hooks into torch's internals, and no run is lost for it
        return None


def _bound(flops: Any, phases: Timing | None, facts: machine.Machine, setting: Setting, torch: Any) -> Any:
    """Share of this machine's measured ceilings; ``None`` until ``modelzoo doctor`` has measured them."""
    from modelzoo.machine import ceilings, roofline

    if flops is None or not flops.total or phases is None or setting.device != "cpu":
        return None
    place = ceilings.ceilings_path(facts, torch.__version__, facts.threads.count)
    found = ceilings.read_ceilings(place)
    if found is None:
        return None
    seconds = median(phases.steady)
    bound = roofline.roofline_bound(flops.total, flops.bytes, seconds, found, setting.precision, setting.threads)
    return {**asdict(bound), "ceilings": str(place)}


def _phases(timing: Timing | None) -> dict[str, Any] | None:
    """``timing`` in result format 1."""
    if timing is None:
        return None
    return {
        "cold": timing.cold_start,
        "warmup": timing.warmup,
        "steady": timing.steady,
        "warmup_end": timing.warmup_end,
        "stop": timing.stop,
        "issue": timing.values("issue"),
        "device": timing.values("device"),
    }


def _peak_memory() -> int:
    import resource

    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _warnings(
    setting: Setting,
    bf16_method: str | None,
    weights: Weights,
    canary: Canary,
    word: str,
    counts: tuple[Count, ...],
    phases: Timing | None,
    load: Any,
    facts: machine.Machine,
    environment: Mapping[str, Any],
) -> tuple[WarningMessage, ...]:
    found: list[WarningMessage] = []
    if weights.kind == "random":
        found.append(warning_for(WarningCode.RANDOM_WEIGHTS, reason=weights.reason))
    if environment["removed"]:
        names = ", ".join(f"{k}={v}" for k, v in sorted(environment["removed"].items()))
        found.append(warning_for(WarningCode.SCRUBBED_VARIABLES, names=names))
    if setting.precision == "fp32" and word != "fp32":
        found.append(warning_for(WarningCode.FP32_NOT_FP32, detail=canary.summary))
    if setting.precision == "bf16":
        if not facts.has_bf16 and setting.device == "cpu":
            found.append(warning_for(WarningCode.NO_BF16_HARDWARE, features=", ".join(facts.features) or "none known"))
        if word != "active":
            code = WarningCode.BF16_PARTLY if word == "partly" else WarningCode.BF16_NOT_ACTIVE
            found.append(warning_for(code, method=bf16_method, detail=canary.summary))
    for count in counts:
        if weights.kind == "random" and not count.low <= count.value <= count.high:
            found.append(
                warning_for(
                    WarningCode.MISMATCHED_COUNTS,
                    what=count.name,
                    seen=f"{count.value:.0f}",
                    low=f"{count.low:.0f}",
                    high=f"{count.high:.0f}",
                )
            )
    if setting.backend != "auto" and setting.backend == os.environ.get(BACKEND_VARIABLE):
        meaning = "oneDNN is off" if setting.backend == "blas" else "oneDNN is on"
        found.append(warning_for(WarningCode.BACKEND_VARIABLE, value=setting.backend, meaning=meaning))
    if facts.emulator:
        found.append(warning_for(WarningCode.EMULATED))
    assert setting.threads is not None
    if setting.threads > facts.threads.count:
        found.append(warning_for(WarningCode.OVERSUBSCRIBED, threads=setting.threads, cores=facts.threads.count))
    if os.environ.get("OMP_WAIT_POLICY"):
        found.append(warning_for(WarningCode.WAIT_POLICY, value=os.environ["OMP_WAIT_POLICY"]))
    found += usage_warnings(load, facts)
    return (*found, *_phase_warnings(phases))


def _phase_warnings(phases: Timing | None) -> list[WarningMessage]:
    if phases is None:
        return []
    found = []
    if phases.warmup_end is WarmUpEnd.CAP:
        found.append(warning_for(WarningCode.WARMUP_CAP, seconds=sampler.WARMUP_MAX_SECONDS, count=len(phases.warmup)))
    if len(phases.steady) < sampler.MIN_SAMPLES:
        found.append(warning_for(WarningCode.FEW_SAMPLES, count=len(phases.steady)))
    elif phases.stop is StopReason.TIME_LIMIT:
        half_width = stats.process_interval(phases.steady).half_width
        found.append(
            warning_for(WarningCode.TIME_LIMIT, percent=f"{100 * half_width:.1f} %" if half_width < 1 else "over 100 %")
        )
    outliers = stats.outliers(phases.steady)
    if outliers:
        found.append(warning_for(WarningCode.OUTLIERS, count=outliers, total=len(phases.steady)))
    return found


KINDS: dict[str, Callable[[Mapping[str, Any], Send], dict[str, Any]]] = {
    "prepare": prepare,
    "measure": measure,
    "validate": validate,
}


if __name__ == "__main__":
    sys.exit(main())

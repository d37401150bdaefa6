"""Record one pass: what every operator was called with, how long it took, and which kernels were logged meanwhile.

The pass is the call that is timed, in eager mode or compiled; its operators are intercepted. What the libraries print
during an operator's call belongs to it; outside, generated code, another thread or an extension called what they print.
The distinct products of the pass are called again (``modelzoo.evidence.replay``).
"""

from __future__ import annotations

import contextlib
import platform
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from modelzoo.evidence.audit import (
    CALL,
    Provenance,
    Written,
    blas_name,
    library_logs,
    onednn_version,
    run_device_profiled,
    shows_onednn,
)
from modelzoo.evidence.flops import Call, FlopCountError, layers_followed, record_calls, sum_flops
from modelzoo.evidence.kernel_names import operator_class
from modelzoo.evidence.logs import (
    RANDOM_OUTPUTS,
    BlasCall,
    OneDnnLog,
    logged_call,
    logged_precision,
    parse_mkl,
    parse_onednn,
)
from modelzoo.evidence.precision import DeviceKernel, operand_precision
from modelzoo.evidence.probes import differ, kept
from modelzoo.evidence.replay import Collector, ask_products
from modelzoo.frozen import replace
from modelzoo.records.evidence import LogSource, Product
from modelzoo.records.profile import Flops
from modelzoo.workload.nested import tensors_in


class Printed(msgspec.Struct, frozen=True):
    """What oneDNN and MKL printed, which kernels an accelerator ran, and in which phase of the call."""

    log: OneDnnLog = OneDnnLog()
    blas_calls: tuple[BlasCall, ...] = ()
    phase: str = ""
    kernels: tuple[DeviceKernel, ...] = ()


class RecordedCall(msgspec.Struct, frozen=True):
    """One call of an operator.

    Attributes:
        call: what it was called with, and what it costs.
        seconds: how long it took, without intercepting it; on an accelerator whose kernels are known, these.
        layers: the paths of the modules whose forward was running, the innermost last.
        printed: what the libraries printed meanwhile, and the accelerator's kernels that it launched.
        product: the place of its product in ``Recording.products``; ``None`` if it multiplies nothing.
    """

    call: Call
    seconds: float
    layers: tuple[str, ...] = ()
    printed: Printed = Printed()
    product: int | None = None


class Recording(msgspec.Struct, frozen=True):
    """One recorded pass.

    Attributes:
        calls: every operator that was called, in order.
        outside: what the libraries printed, and the kernels that were launched, outside all of them.
        products: the distinct products among ``calls``, with what they showed when they were called again.
        seconds: what the pass takes if nobody observes it, by phase; one of ``""`` if there are none.
        passes: how often each phase was entered; empty if there are none.
        replay_seconds: what calling the products again took; ``None`` if none was.
        log_source: how oneDNN's log was switched on.
        shows_onednn: whether it is known what oneDNN ran.
        blas: the library that computes products outside oneDNN, such as ``mkl 2024.2``.
        logs_mkl: whether MKL logged anything.
        onednn_version: as torch reports it.
        modules: how often each module's forward ran, by path; empty if modules were not followed.
        foreign: floating-point numbers that operators read, and that no operator had computed.
        subnormal: share of subnormal numbers in the operands of products, by samples.
        outputs_differ: whether the model computed other outputs, or in other precisions, while it was observed.
        eager: the calls of a pass of the eager model, each with its phase; ``None`` if they are not known.
        device: the kind of device that computed it, such as ``cuda``.
        operands: of the accelerator's kernels in a pass of the eager model, by name: the precision of what they are
            given; empty if ``calls`` show it.
        problems: what could not be observed.
    """

    calls: tuple[RecordedCall, ...]
    outside: tuple[Printed, ...]
    products: tuple[Product, ...] = ()
    seconds: Mapping[str, float] = {}
    passes: Mapping[str, int] = {}
    replay_seconds: float | None = None
    log_source: LogSource = LogSource.NONE
    shows_onednn: bool = True
    blas: str = ""
    logs_mkl: bool = False
    onednn_version: str = ""
    modules: Mapping[str, int] = {}
    foreign: int = 0
    subnormal: float = 0.0
    outputs_differ: bool = False
    eager: tuple[tuple[str, Call], ...] | None = None
    device: str = "cpu"
    operands: Mapping[str, str] = {}
    problems: tuple[str, ...] = ()

    def counted(self) -> Flops | None:
        """The operations of one pass of the eager model, the mean if there were several; ``None`` if not counted."""
        if self.eager is None:
            return None
        found, count = sum_flops([call for _, call in self.eager]), self.iterations
        mean = {operator: flop // count for operator, flop in found.by_operator.items()}
        return Flops(sum(mean.values()), found.bytes // count, mean, found.missing)

    @property
    def iterations(self) -> int:
        """How many passes these are: those of a phase, or one."""
        return sum(self.passes.values()) if len(self.passes) == 1 else 1

    def phase(self, name: str) -> Recording:
        """What was recorded in the passes of one phase."""
        return replace(
            self,
            calls=tuple(each for each in self.calls if each.printed.phase == name),
            outside=tuple(each for each in self.outside if each.phase == name),
            seconds={name: self.seconds[name]},
            passes={name: self.passes[name]},
            eager=None if self.eager is None else tuple(each for each in self.eager if each[0] == name),
        )


class Phases:
    """Which phase of a call is running; what the call is composed of says so (``enter``)."""

    def __init__(self) -> None:
        self.running = ""
        self.entered: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self._since = 0.0

    def enter(self, name: str) -> None:
        """Begin a pass of the phase ``name``."""
        self.leave()
        self.running, self._since = name, time.perf_counter()
        self.entered[name] += 1

    def leave(self) -> None:
        """End the pass that is running."""
        if self.running:
            self.seconds[self.running] += time.perf_counter() - self._since
        self.running = ""


class Plan(msgspec.Struct, frozen=True):
    """How a pass is recorded.

    Attributes:
        model: the ``torch.nn.Module`` that runs in eager mode, in the call or in ``eager``.
        eager: a pass of ``model``, for its operations, if the call is compiled or scripted.
        intercepts: whether operators are intercepted; otherwise only the libraries' logs show what ran.
        budget: how many seconds products may be called again, given what a pass takes; ``None``: none is.
        asked: the precision that was asked for.
        phases: what says which phase is running, if there are any.
        device: the kind of device that computes, such as ``cuda``.
        synchronize: waits for it.
    """

    model: Any = None
    eager: Callable[[], object] | None = None
    intercepts: bool = True
    budget: Callable[[float], float] | None = None
    asked: str = "fp32"
    phases: Phases | None = None
    device: str = "cpu"
    synchronize: Callable[[], object] = lambda: None

    def range(self, place: int) -> contextlib.AbstractContextManager[object]:
        """The profiler's range around the call of an operator that has this place in the recording."""
        if self.device == "cpu":
            return contextlib.nullcontext()
        from torch.autograd.profiler import record_function

        found: contextlib.AbstractContextManager[object] = record_function(f"{CALL}{place}")
        return found


def record_pass(call: Callable[[], object], plan: Plan) -> Recording:
    """Run ``call`` once unobserved and once observed, and compare the outputs; call its distinct products again."""
    phases = plan.phases

    def whole() -> object:
        output = call()
        plan.synchronize()
        return output

    with library_logs([]) as (written, _):
        began = time.perf_counter()
        output = whole()
        seconds = time.perf_counter() - began
        unobserved = Printed(parse_onednn(written()), parse_mkl(written()))
    first, outputs = kept(output), list[object]()
    taken, entered = (dict(phases.seconds), dict(phases.entered)) if phases is not None else ({"": seconds}, {})
    found = record_once(lambda: outputs.append(whole()), plan, seconds)
    differs = differ(first, tensors_in(outputs[-1]))
    # Even those of two passes that nobody observes may differ.
    is_random = differs and differ(first, tensors_in(whole()))
    printed = [each.printed for each in found.calls] + list(found.outside)
    is_other = not _precisions([unobserved]) <= _precisions(printed)
    if plan.eager is not None:
        eager = record_once(plan.eager, replace(plan, eager=None, intercepts=True, budget=None))
        launched = [(kernel.name, each.call.dtypes) for each in eager.calls for kernel in each.printed.kernels]
        found = replace(
            found,
            eager=eager.eager,
            operands={name: operand_precision(dtypes) for name, dtypes in launched},
            foreign=eager.foreign,
            subnormal=eager.subnormal,
            problems=tuple(dict.fromkeys((*found.problems, *eager.problems))),
        )
    if plan.device != "cpu":
        taken = {
            name: sum(each.seconds for each in found.calls if each.printed.phase == name)
            + sum(kernel.seconds for each in found.outside if each.phase == name for kernel in each.kernels)
            for name in taken
        }
    return replace(
        found,
        seconds=taken,
        passes=entered,
        outputs_differ=(differs and not is_random) or is_other,
        problems=(*found.problems, RANDOM_OUTPUTS) if is_random else found.problems,
    )


def _precisions(printed: Iterable[Printed]) -> set[str]:
    """Those of the products that were logged."""
    found = {logged_precision(each) for one in printed for each in one.log.primitives if each.is_compute}
    return found | {each.precision for one in printed for each in one.blas_calls if each.is_product}


def record_once(call: Callable[[], object], plan: Plan, seconds: float = 0.0) -> Recording:
    """Run ``call`` once, observed, and its distinct products again; ``seconds``: what it takes unobserved."""
    not_intercepted = (
        "this torch does not intercept what compiled code calls: the libraries' logs alone show its kernels"
    )
    problems = [] if plan.intercepts else [not_intercepted]
    module = plan.model if plan.eager is None else None
    with library_logs(problems) as (written, source), layers_followed(module) as (layers, modules):
        is_logged, is_cpu = shows_onednn(source), plan.device == "cpu"
        recorder, calls = _Recorder(written, is_logged, layers, plan), None
        # Compiled code writes memory that no operator has written: there, the numbers of the eager pass are followed.
        provenance = Provenance(module) if plan.eager is None and is_cpu else None
        kernels: tuple[DeviceKernel, ...] = ()

        def observed() -> None:
            nonlocal calls, recorder, provenance
            if plan.intercepts:
                try:
                    run = recorder.run if provenance is None else provenance.following(recorder.run)
                    calls = record_calls(call, run, plan.device)
                except FlopCountError as error:
                    problems.append(str(error))
                    recorder, provenance = _Recorder(written, is_logged, layers, plan), None
            if calls is None:
                call()

        if is_cpu:
            observed()
        else:
            kernels = run_device_profiled(observed, plan.device, plan.synchronize, written, problems)
        outside = tuple(recorder.outside())
        products, began = recorder.collector.products(), time.perf_counter()
        if plan.budget is not None:
            products = ask_products(recorder.collector, plan.budget(seconds), plan.asked)
        replay_seconds = time.perf_counter() - began if plan.budget is not None and products else None
    noted = tuple(RecordedCall(each, *one) for each, one in zip(calls or (), recorder.noted))
    if kernels:
        noted, outside = _with_kernels(noted, outside, kernels)
    return Recording(
        calls=noted,
        outside=outside,
        products=products,
        seconds={"": seconds},
        replay_seconds=replay_seconds,
        log_source=source if is_cpu else LogSource.PROFILER if kernels else LogSource.NONE,
        shows_onednn=is_logged,
        blas=blas_name() if is_cpu else "",
        logs_mkl=any(each.printed.blas_calls for each in noted),
        onednn_version=onednn_version() if is_cpu else "",
        modules=modules,
        foreign=provenance.foreign if provenance is not None else 0,
        subnormal=provenance.subnormal if provenance is not None else 0.0,
        eager=tuple((each.printed.phase, each.call) for each in noted) if calls is not None else None,
        device=plan.device,
        problems=tuple(dict.fromkeys(problems)),
    )


def _with_kernels(
    calls: Sequence[RecordedCall], outside: Sequence[Printed], kernels: Sequence[DeviceKernel]
) -> tuple[tuple[RecordedCall, ...], tuple[Printed, ...]]:
    """The calls, each with the kernels that it launched and the seconds of these, and those launched by none."""
    launched: dict[int | None, list[DeviceKernel]] = defaultdict(list)
    for kernel in kernels:
        launched[kernel.call].append(kernel)
    within = []
    for place, each in enumerate(calls):
        seconds = sum(kernel.seconds for kernel in launched[place])
        within.append(replace(each, seconds=seconds, printed=replace(each.printed, kernels=tuple(launched[place]))))
    others = [Printed(kernels=tuple(launched[None]))] if launched[None] else []
    return tuple(within), (*outside, *others)


class _Recorder:
    """Calls each operator, and notes its time and what was printed during it.

    Args:
        written: what the libraries print.
        shows_onednn: whether that is all that oneDNN runs.
        running: the paths of the modules whose forward is running.
        plan: which phase is running, and on which device.
    """

    def __init__(self, written: Written, shows_onednn: bool, running: Sequence[str], plan: Plan) -> None:
        self.collector = Collector(written if shows_onednn else None)
        self.noted: list[tuple[float, tuple[str, ...], Printed, int | None]] = []
        self._written, self._running, self._plan = written, running, plan
        self._phases = plan.phases or Phases()
        self._outside: list[Printed] = []
        self._end = written.size
        self._architecture = platform.machine()

    def run(self, name: str, operator: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        self.outside()
        with self._plan.range(len(self.noted)):
            began = time.perf_counter()
            output = operator(*args, **named)
            self._plan.synchronize()
            seconds = time.perf_counter() - began
        printed, layers = self._printed(), tuple(self._running)
        place = None
        if operator_class(name) is not None:
            logged = logged_call(printed.log, printed.blas_calls)
            layer = next((path for path in reversed(layers) if path), "")
            place = self.collector.note(name, operator, args, named, output, logged, layer)
        self.noted.append((seconds, layers, printed, place))
        return output

    def outside(self) -> Sequence[Printed]:
        """What was printed outside all operators so far."""
        printed = self._printed()
        if printed.log.primitives or printed.log.unread or printed.blas_calls:
            self._outside.append(printed)
        return self._outside

    def _printed(self) -> Printed:
        """What was printed since this was asked last."""
        begin, self._end = self._end, self._written.size
        if begin == self._end:
            return Printed(phase=self._phases.running)
        text = self._written(begin)
        return Printed(parse_onednn(text, self._architecture), parse_mkl(text), self._phases.running)

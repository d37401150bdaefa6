"""What an audit recorded, parsed; and which kernels one pass ran, so that other processes can be compared. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Optional

import msgspec

from modelzoo.evidence.mkl_log import BlasCall, parse_mkl
from modelzoo.evidence.onednn_log import (
    BF16_ALLOWED,
    OneDnnLog,
    Primitive,
    logged_precision,
    parse_onednn,
    problem_dimensions,
    problem_flop,
    untimed,
)
from modelzoo.evidence.precision import UNKNOWN
from modelzoo.frozen import replace
from modelzoo.records.evidence import KernelCalls, KernelDigest, LogSource, Product
from modelzoo.records.profile import Shape

RANDOM_OUTPUTS = "the model's outputs differ from pass to pass, so observed passes cannot be compared with others"


class Event(msgspec.Struct, frozen=True):
    """One call of one operator on the main thread.

    ``seconds`` is self time, without children; ``parent`` is the index of the caller in ``Audit.events``, -1 for none.
    ``shapes`` and ``dtypes`` describe the arguments in order. Data types have the profiler's names (``float``,
    ``c10::BFloat16``, ``Scalar``); versions of torch that do not record them leave ``dtypes`` empty. ``flop`` are the
    operations of a product, if the engine's profiler shows its sizes.
    """

    name: str
    seconds: float
    parent: int
    shapes: tuple[Shape, ...] = ()
    dtypes: tuple[str, ...] = ()
    flop: Optional[int] = None


class Observation(msgspec.Struct, frozen=True):
    """An audit as recorded; the fields that ``Audit`` has too are described there.

    ``onednn_output`` and ``mkl_output`` are what the libraries printed, ``onednn_version`` is what torch reports, and
    ``architecture`` is that of the CPU.
    """

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    onednn_output: str
    mkl_output: str
    log_source: LogSource
    blas: str
    sbgemm: Optional[bool] = None
    onednn_version: str = ""
    problems: tuple[str, ...] = ()
    architecture: str = ""


class Audit(msgspec.Struct, frozen=True):
    """An observation with the libraries' output parsed.

    Args:
        iterations: number of passes.
        seconds: wall time of all passes together, slower than the timed ones.
        events: every operator call, callers before the operators that they call.
        log: what oneDNN printed.
        log_source: how oneDNN's verbose mode was switched on.
        blas: the library that computes products outside oneDNN, such as ``mkl 2024.2``.
        sbgemm: whether torch passes bf16 products to it; ``None`` if unknown.
        blas_calls: what MKL printed about one further pass.
        problems: what could not be observed.
    """

    iterations: int
    seconds: float
    events: tuple[Event, ...]
    log: OneDnnLog
    log_source: LogSource
    blas: str
    sbgemm: Optional[bool] = None
    blas_calls: tuple[BlasCall, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def shows_onednn(self) -> bool:
        """Whether it is known what oneDNN ran: there is a log, or this torch has no oneDNN."""
        return self.log_source is not LogSource.NONE or not self.log.version


def parse_observation(observation: Observation) -> Audit:
    """Parse what the libraries printed."""
    log = parse_onednn(observation.onednn_output, observation.architecture)
    # oneDNN prints its version once per process, before its first primitive; torch reports it too.
    log = replace(log, version=log.version or observation.onednn_version)
    return Audit(
        iterations=observation.iterations,
        seconds=observation.seconds,
        events=observation.events,
        log=log,
        log_source=observation.log_source,
        blas=observation.blas,
        sbgemm=observation.sbgemm,
        blas_calls=parse_mkl(observation.mkl_output),
        problems=observation.problems,
    )


def kernel_digest(output: str) -> KernelDigest | None:
    """Summarize what oneDNN and MKL printed in verbose mode during one pass.

    Returns:
        ``None`` if no kernel that multiplies matrices is named.
    """
    products = _logged_products(output)
    if not products:
        return None
    calls: Counter[tuple[str, str, tuple[int | str | None, ...]]] = Counter()
    by_kernel: Counter[tuple[str, str]] = Counter()
    for each in products:
        calls[each.kernel, each.precision, each.fixed_dimensions] += each.count
        by_kernel[each.kernel, each.precision] += each.count
    # Some sizes may be unknown, and None cannot be sorted among numbers.
    content = json.dumps(sorted(([*key, count] for key, count in calls.items()), key=str))
    return KernelDigest(
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        kernels=tuple(KernelCalls(name, precision, count) for (name, precision), count in sorted(by_kernel.items())),
    )


def logged_operations(output: str) -> Mapping[str, int] | None:
    """Sum the operations of the products that oneDNN and MKL printed, by precision; those of unknown size count 0.

    Returns:
        ``None`` if no product is named.
    """
    products = _logged_products(output)
    if not products:
        return None
    found: Counter[str] = Counter()
    for each in products:
        found[each.precision] += each.flop
    return found


class _LoggedProduct(msgspec.Struct, frozen=True):
    """Calls of a kernel that multiplies matrices; ``flop`` are the operations of all of them.

    A line that cannot be read may be one, and has the line itself in place of its sizes.
    """

    kernel: str
    precision: str
    fixed_dimensions: tuple[int | str | None, ...]
    count: int
    flop: int


def _logged_products(output: str) -> list[_LoggedProduct]:
    """Those of oneDNN and MKL."""
    log = parse_onednn(output)
    found = [
        _LoggedProduct(
            f"oneDNN {each.kind} {each.implementation}",
            logged_precision(each),
            _fixed_dimensions(each),
            1,
            problem_flop(each) or 0,
        )
        for each in log.primitives
        if each.is_compute
    ]
    found += [
        _LoggedProduct(f"MKL {each.function.lower()}", each.precision, (), each.count, each.flop)
        for each in parse_mkl(output)
        if each.is_product
    ]
    found += [_LoggedProduct("oneDNN, unread line", UNKNOWN, (untimed(line),), 1, 0) for line in log.unread]
    return found


class LoggedCall(msgspec.Struct, frozen=True):
    """What the libraries' logs say of one call of an operator.

    Attributes:
        lines: what ran, without times and in alphabetical order: equal for two calls that ran the same kernels.
        kernels: those that multiply matrices, each once.
        precision: that of all of them, as far as the log proves it; ``None`` if it does not, or if they differ.
        unread: the lines of oneDNN's that could not be read, likewise without times.
    """

    lines: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    precision: Optional[str] = None
    unread: tuple[str, ...] = ()


def logged_call(output: str) -> LoggedCall:
    """Parse what oneDNN and MKL printed during one call."""
    log = parse_onednn(output)
    lines, kernels, precisions = [], set(), set()
    for each in log.primitives:
        lines.append(f"{each.kernel} {each.prop} {each.tensors} {each.attributes} {each.auxiliary} {each.problem}")
        if each.is_compute:
            kernels.add(f"oneDNN {each.kernel}")
            precisions.add(logged_precision(each))
    for call in parse_mkl(output):
        if call.is_product:
            lines.append(f"MKL {call.function} {call.count} {call.flop}")
            kernels.add(f"MKL {call.function.lower()}")
            precisions.add(call.precision)
    precision = precisions.pop() if len(precisions) == 1 and not log.unread else None
    proven = None if precision in (BF16_ALLOWED, "unknown") else precision
    return LoggedCall(tuple(sorted(lines)), tuple(sorted(kernels)), proven, tuple(sorted(map(untimed, log.unread))))


class Replays(msgspec.Struct, frozen=True):
    """What the products of one pass showed themselves.

    Attributes:
        products: the distinct ones, without precision and share of the time.
        order: the product of each call of the pass, by its place in ``products``.
        seconds: what calling them again took.
        foreign: floating-point numbers that operators of the pass read, and that no operator had computed.
        subnormal: share of subnormal numbers in the operands of its products, by samples.
        outputs_differ: whether the model computed other outputs while it was observed.
        unread: of each product, what ``LoggedCall`` has of one call.
    """

    products: tuple[Product, ...]
    order: tuple[int, ...]
    seconds: float
    foreign: int = 0
    subnormal: float = 0.0
    outputs_differ: bool = False
    unread: tuple[tuple[str, ...], ...] = ()


def _fixed_dimensions(primitive: Primitive) -> tuple[int | None, ...]:
    """The sizes that do not depend on the number of items: all but the batch, and but the rows of a product."""
    dimensions = problem_dimensions(primitive)
    return dimensions[1:] if "convolution" in primitive.kind else dimensions[2:]

"""What the logs of oneDNN and MKL say of one operator's call, and of a pass, to compare processes by. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from modelzoo.evidence.logs import (
    BF16_ALLOWED,
    BlasCall,
    OneDnnLog,
    fixed_sizes,
    logged_precision,
    parse_mkl,
    parse_onednn,
    untimed,
)
from modelzoo.evidence.precision import UNKNOWN
from modelzoo.records.evidence import KernelCalls, KernelDigest

RANDOM_OUTPUTS = "the model's outputs differ from pass to pass, so observed passes cannot be compared with others"


def kernel_digest(output: str) -> KernelDigest | None:
    """Summarize what oneDNN and MKL printed in verbose mode during one pass.

    Returns:
        ``None`` if no kernel that multiplies matrices is named.
    """
    log = parse_onednn(output)
    calls: list[CountedCalls] = [
        (f"oneDNN {each.kind} {each.implementation}", logged_precision(each), (fixed_sizes(each),), 1)
        for each in log.primitives
        if each.is_compute
    ]
    calls += [
        (f"MKL {each.function.lower()}", each.precision, (), each.count)
        for each in parse_mkl(output)
        if each.is_product
    ]
    # A line that cannot be read may be a product.
    calls += [("oneDNN, unread line", UNKNOWN, (untimed(line),), 1) for line in log.unread]
    return digest_of(calls)


CountedCalls = tuple[str, str, tuple[object, ...], int]
"""Kernel, precision, what else tells these calls from others (their sizes), and their number."""


def digest_of(calls: Iterable[CountedCalls]) -> KernelDigest | None:
    """Summarize the calls of kernels that multiply matrices, in any order; ``None`` if there are none."""
    alike: Counter[tuple[str, str, tuple[object, ...]]] = Counter()
    by_kernel: Counter[tuple[str, str]] = Counter()
    for kernel, precision, sizes, count in calls:
        alike[kernel, precision, sizes] += count
        by_kernel[kernel, precision] += count
    if not alike:
        return None
    # Some sizes may be unknown, and None cannot be sorted among numbers.
    content = json.dumps(sorted(([*key, count] for key, count in alike.items()), key=str))
    return KernelDigest(
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        kernels=tuple(KernelCalls(name, precision, count) for (name, precision), count in sorted(by_kernel.items())),
    )


class LoggedCall(msgspec.Struct, frozen=True):
    """What the libraries' logs say of one call of an operator.

    Attributes:
        lines: what ran, without times and in alphabetical order: equal for two calls that ran the same kernels, or
            printed the same lines of oneDNN's that could not be read.
        kernels: those that multiply matrices, each once.
        precision: that of all of them, as far as the log proves it; ``None`` if it does not, or if they differ.
    """

    lines: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    precision: str | None = None


def logged_call(output: str) -> LoggedCall:
    """Parse what oneDNN and MKL printed during one call."""
    return logged_call_of(parse_onednn(output), parse_mkl(output))


def logged_call_of(log: OneDnnLog, blas_calls: Sequence[BlasCall]) -> LoggedCall:
    """Sum up what oneDNN and MKL printed during one call."""
    lines, kernels, precisions = [*map(untimed, log.unread)], set(), set()
    for each in log.primitives:
        lines.append(f"{each.kernel} {each.prop} {each.tensors} {each.attributes} {each.auxiliary} {each.problem}")
        if each.is_compute:
            kernels.add(f"oneDNN {each.kernel}")
            precisions.add(logged_precision(each))
    for call in blas_calls:
        if call.is_product:
            lines.append(f"MKL {call.function} {call.count} {call.flop}")
            kernels.add(f"MKL {call.function.lower()}")
            precisions.add(call.precision)
    precision = precisions.pop() if len(precisions) == 1 and not log.unread else None
    proven = None if precision in (BF16_ALLOWED, "unknown") else precision
    return LoggedCall(tuple(sorted(lines)), tuple(sorted(kernels)), proven)

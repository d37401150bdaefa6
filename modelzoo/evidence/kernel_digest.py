"""Summarize which kernels one pass ran, so that processes can be compared without auditing each of them. Pure."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from modelzoo.evidence.onednn_log import Primitive, logged_precision, parse_mkl, parse_onednn, problem_dimensions
from modelzoo.records.evidence import KernelCalls, KernelDigest


def kernel_digest(output: str) -> KernelDigest | None:
    """Summarize what oneDNN and MKL printed in verbose mode during one pass.

    Returns:
        ``None`` if no kernel that multiplies matrices is named, or a line of oneDNN's cannot be read.
    """
    log = parse_onednn(output)
    calls: Counter[tuple[str, str, tuple[int | None, ...]]] = Counter()
    for primitive in log.primitives:
        if primitive.is_compute:
            name = f"oneDNN {primitive.kind} {primitive.implementation}"
            calls[name, logged_precision(primitive), _fixed_dimensions(primitive)] += 1
    for call in parse_mkl(output):
        if call.is_product:
            calls[f"MKL {call.function.lower()}", call.precision, ()] += call.count
    if log.unparsed or not calls:
        return None
    by_kernel: Counter[tuple[str, str]] = Counter()
    for (name, precision, _), count in calls.items():
        by_kernel[name, precision] += count
    # Some sizes may be unknown, and None cannot be sorted among numbers.
    content = json.dumps(sorted(([*key, count] for key, count in calls.items()), key=str))
    return KernelDigest(
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        kernels=tuple(KernelCalls(name, precision, count) for (name, precision), count in sorted(by_kernel.items())),
    )


def _fixed_dimensions(primitive: Primitive) -> tuple[int | None, ...]:
    """The sizes that do not depend on the number of items: all but the batch, and but the rows of a product."""
    dimensions = problem_dimensions(primitive)
    return dimensions[1:] if "convolution" in primitive.kind else dimensions[2:]

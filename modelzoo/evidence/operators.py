"""What the names of the profiler's events say. Pure."""

from __future__ import annotations

import re

from modelzoo.records.evidence import OperatorClass

PASS_EVENT = "modelzoo::pass"
"""The profiler event around one audited pass; its self time is spent in Python, between operators."""
_CLASS_PATTERNS = (
    (OperatorClass.ATTENTION, re.compile(r"attention|sdpa|flash_att")),
    (OperatorClass.CONV, re.compile(r"conv(?!ert|_tbc_backward)")),
    (OperatorClass.LINEAR, re.compile(r"(^|_|q)linear(_|$)|addmm|addmv|(^|_)(lstm|gru|rnn)(_|$)")),
    (OperatorClass.MATMUL, re.compile(r"(^|_)(mm|bmm|matmul|baddbmm|addbmm|mv|dot|vdot|ger|addr)(_|$)|\dpack_mm")),
)
_NOT_COMPUTE_NAME = re.compile(r"upsample|interpolate|resolve_conj|backward|_fused_(lstm|gru)_cell|reorder")


def operator_class(name: str) -> OperatorClass | None:
    """Return the class of an operator that multiplies matrices, or calls one that does; otherwise ``None``."""
    base = base_name(name)
    if "::" not in name or _NOT_COMPUTE_NAME.search(base):
        return None
    return next((kind for kind, pattern in _CLASS_PATTERNS if pattern.search(base)), None)


def base_name(name: str) -> str:
    """``aten::add_.Tensor`` without namespace and overload: ``add_``."""
    return name.split("::")[-1].split(".")[0]

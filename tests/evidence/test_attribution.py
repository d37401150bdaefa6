"""Every second of an audit is attributed, and time that nothing explains is shown as such."""

from __future__ import annotations

import json
import re

import places
import pytest
from evidence_samples import ALL_BF16, ALL_FP32, adds_up, canary, conv_event, conv_line

from modelzoo.evidence.attribution import attribute_time
from modelzoo.evidence.observation import Audit, Event
from modelzoo.evidence.onednn_log import parse_onednn
from modelzoo.evidence.operators import PASS_EVENT
from modelzoo.evidence.verdict import build_evidence
from modelzoo.frozen import replace
from modelzoo.records.evidence import LogSource


def test_time_that_nothing_explains_stays_unattributed() -> None:
    """Time beyond the primitive and plausible set-up is shown, not spread over other rows."""
    log = parse_onednn(conv_line("jit:avx512_core", "f32", 500.0))
    audit = Audit(1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(1.0)), log, LogSource.RUNTIME_SWITCH, "mkl 2024.2")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    shares = {row.name: row.share for row in evidence.by_implementation}
    assert shares["oneDNN jit:avx512_core"] == pytest.approx(0.5)
    assert shares["oneDNN set-up"] == pytest.approx(0.001)
    assert shares["unattributed"] == evidence.unattributed_share == pytest.approx(0.499)


def test_operators_get_their_own_primitive() -> None:
    """Two convolutions of different sizes each get their kernel, whatever else is in the log."""
    wide = conv_line("jit_1x1:avx512_core", "f32", 200.0).replace("ic8oc8", "ic8oc16")
    other = conv_line("brg:x", "f32", 1.0).replace("ic8oc8", "ic4oc4")
    log = parse_onednn("\n".join((other, wide, conv_line("jit:avx512_core", "f32", 100.0))))
    small = conv_event(0.1)
    large = replace(conv_event(0.2), shapes=((1, 8, 8, 8), (16, 8, 3, 3)))
    audit = Audit(1, 0.4, (Event(PASS_EVENT, 0.1, -1), large, small), log, LogSource.RUNTIME_SWITCH, "mkl")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    found = {use.implementation: use.kernel_seconds for use in evidence.operators if use.shapes}
    assert found == {
        "oneDNN jit_1x1:avx512_core": pytest.approx(0.2),
        "oneDNN jit:avx512_core": pytest.approx(0.1),
    }
    # The third convolution belongs to no operator and is taken out of the time between operators.
    shares = {row.name: row.share for row in evidence.by_implementation}
    assert shares["oneDNN brg:x"] == pytest.approx(0.001 / 0.4)
    assert adds_up(evidence)


def test_unmatched_primitives_that_do_not_fit_are_reported() -> None:
    """Unmatched primitives that took longer than the time between operators are reported; shares add up."""
    log = parse_onednn("\n".join([conv_line("jit:avx512_core", "f32", 100.0)] * 2))
    audit = Audit(1, 0.1, (Event(PASS_EVENT, 0.0, -1), conv_event(0.1)), log, LogSource.RUNTIME_SWITCH, "mkl")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    assert evidence.problems == ("1 oneDNN primitives (jit:avx512_core) could not be matched with an operator",)
    assert adds_up(evidence)


def test_without_a_profiler() -> None:
    """The log alone proves the precision; the rest of the wall time is unattributed."""
    log = parse_onednn(conv_line("jit_bf16:avx512_core_bf16", "bf16", 600.0))
    audit = Audit(1, 1.0, (), log, LogSource.RUNTIME_SWITCH, "mkl", problems=("no working profiler",))
    evidence = build_evidence(audit, ALL_BF16, "bf16", "cast")
    assert evidence.verdict == "ACTIVE"
    assert evidence.unattributed_share == pytest.approx(0.4)
    assert evidence.problems == ("no working profiler",)


SMALL = places.DATA / "aarch64_neoverse-n2_torch2.10.0_small-conv_fpmath-bf16.log"
"""Convolutions too small for oneDNN's own kernels, recorded on an emulated Neoverse N2: torch unfolds the image
and passes the product to oneDNN. ``ERR`` is the error against fp64, ``EV`` an operator, its shapes and microseconds."""


def small_audit() -> Audit:
    """One audit of all recorded convolutions."""
    text = SMALL.read_text(encoding="utf-8")
    operators = [
        Event(name, int(micros) * 1e-6, 0, tuple(tuple(shape) for shape in json.loads(shapes)), ("float", "float"))
        for name, shapes, micros in re.findall(r"^EV (\S+) (\[.*\]) (\d+)$", text, re.MULTILINE)
    ]
    seconds = sum(event.seconds for event in operators)
    return Audit(
        1, seconds, (Event(PASS_EVENT, 0.0, -1), *operators), parse_onednn(text), LogSource.RUNTIME_SWITCH, "openblas"
    )


def test_unfolded_convolutions_find_their_product() -> None:
    """Their error shows bf16 (2e-3); the product in oneDNN's log proves it, and no primitive is left over."""
    evidence = build_evidence(small_audit(), canary("fp32", "bf16", "bf16"), "bf16", "fastmath")
    assert evidence.verdict == "ACTIVE"
    assert [use.implementation for use in evidence.operators] == ["im2col and oneDNN gemm:acl"] * 5
    assert {use.precision for use in evidence.operators} == {"bf16"}
    assert evidence.problems == ()
    assert adds_up(evidence)


def test_reorders_are_divided_among_the_remainders() -> None:
    """The log does not name a reorder's operator, so every oneDNN operator gets the same fraction."""
    reorder = (
        "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,"
        "src:f32::blocked:abcd::f0 dst:f32::blocked:acdb::f0,,,1x8x8x8,100"
    )
    log = parse_onednn("\n".join((reorder, *[conv_line("jit:avx512_core", "f32", 400.0)] * 2)))
    audit = Audit(
        1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(0.5), conv_event(0.5)), log, LogSource.ENVIRONMENT, "mkl"
    )
    parts, problems = attribute_time(audit, {}, None)
    moved = [part.seconds for part in parts if part.implementation == "oneDNN reorder"]
    assert moved == [pytest.approx(0.05)] * 2
    assert sum(part.seconds for part in parts) == pytest.approx(1.0)
    assert problems == []

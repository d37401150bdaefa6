from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import onednn_recordings as recordings
import places
import pytest
from onednn_recordings import audit_of, canary_of, event_of, probes

from modelzoo.evidence.observation import PASS_EVENT, Audit, Event
from modelzoo.evidence.onednn_log import BlasCall, OneDnnLog, parse_onednn
from modelzoo.evidence.verdict import build_evidence
from modelzoo.records.canary import Canary, CanaryLevel, OperatorCheck
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import Evidence
from modelzoo.report.kernel_tables import evidence_tables

LOGS = (
    "neoverse-n1_torch2.10.0_fpmath-strict",
    "neoverse-n2_torch1.13.0_fpmath-bf16",
    "neoverse-n2_torch1.13.0_fpmath-strict",
    "neoverse-n2_torch2.0.1_fpmath-bf16",
    "neoverse-n2_torch2.0.1_fpmath-strict",
    "neoverse-n2_torch2.10.0_fpmath-bf16",
    "neoverse-n2_torch2.10.0_fpmath-strict",
    "neoverse-n2_torch2.5.1_fpmath-bf16",
    "neoverse-n2_torch2.5.1_fpmath-strict",
)


def log_path(shared: Path, name: str) -> Path:
    return shared / "data" / "onednn_verbose" / f"aarch64_{name}.log"


def fp32_probes(shared: Path, name: str) -> list[recordings.Probe]:
    return [probe for probe in probes(log_path(shared, name)) if probe.section == "fp32"]


def whole(all_probes: list[recordings.Probe]) -> Audit:
    """One audit of all operators, each of which took the time of its primitives (at least a second)."""
    events = []
    for probe in all_probes:
        inside = sum(primitive.seconds for primitive in probe.log.primitives)
        events.append(event_of(probe, max(inside, 1.0)))
    primitives = tuple(primitive for probe in all_probes for primitive in probe.log.primitives)
    seconds = sum(event.seconds for event in events)
    return Audit(1, seconds, tuple(events), OneDnnLog("3", primitives=primitives), "environment", "openblas")


def canary(matmul: str, linear: str, conv: str) -> Canary:
    errors = {"fp32": 2e-7, "reduced": 2e-4, "bf16": 2e-3, "broken": 0.5}
    levels = {"matmul": matmul, "linear": linear, "conv": conv}
    return Canary(tuple(OperatorCheck(name, errors[word], CanaryLevel(word)) for name, word in levels.items()))


ALL_FP32 = canary("fp32", "fp32", "fp32")


def adds_up(evidence: Evidence) -> bool:
    tables = (evidence.by_implementation, evidence.by_precision, evidence.by_operator)
    return all(sum(row.share for row in rows) == pytest.approx(1.0, abs=1e-9) for rows in tables)


@pytest.mark.parametrize("name", LOGS)
def test_recorded_logs_operator_by_operator(shared: Path, name: str) -> None:
    """Log and canary together give the precision that each operator's error proves."""
    all_probes = probes(log_path(shared, name))
    assert all_probes
    for probe in all_probes:
        requested = "fp32" if probe.bf16_method is None else "bf16"
        evidence = build_evidence(audit_of(probe), canary_of(all_probes, probe), requested, probe.bf16_method)
        (found,) = evidence.classes
        assert found.operator_class == probe.operator
        assert found.precisions == (probe.truth,), (probe.section, probe.operator)
        expected = {("bf16", "bf16"): "ACTIVE", ("bf16", "fp32"): "NOT_ACTIVE", ("fp32", "fp32"): "FP32"}
        assert evidence.verdict == expected[requested, probe.truth]
        assert adds_up(evidence)


@pytest.mark.parametrize("name", LOGS)
def test_log_alone_never_lies(shared: Path, name: str) -> None:
    """Without a canary the verdict is right or "unknown", and unknown only where ACL was allowed bf16."""
    for probe in probes(log_path(shared, name)):
        evidence = build_evidence(audit_of(probe), None, "bf16" if probe.bf16_method else "fp32", probe.bf16_method)
        (precision,) = evidence.classes[0].precisions
        if precision != probe.truth:
            assert precision == "unknown precision"
            assert any(each.attributes.get("fpmath") == "bf16" for each in probe.log.primitives)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("neoverse-n2_torch2.0.1_fpmath-bf16", "matmul no"),
        ("neoverse-n2_torch2.5.1_fpmath-bf16", "conv no, linear yes, matmul no"),
        ("neoverse-n2_torch2.10.0_fpmath-bf16", "conv yes, linear yes, matmul no"),
    ],
)
def test_partly_names_the_operators(shared: Path, name: str, line: str) -> None:
    """With fast math each version of torch leaves other operators in fp32, and the line says which."""
    found = fp32_probes(shared, name)
    audit = whole(found)
    # The same time for each, so that none of the emulator's outweighs the others.
    audit = replace(audit, events=tuple(replace(event, seconds=10.0) for event in audit.events))
    primitives = tuple(replace(each, seconds=9.0 if each.is_compute else 0.0) for each in audit.log.primitives)
    audit = replace(audit, log=replace(audit.log, primitives=primitives))
    evidence = build_evidence(audit, canary_of(found, found[0]), "bf16", "fastmath")
    assert evidence.verdict == "PARTLY"
    assert line in evidence.line


def test_canary_decides_where_the_log_allows_both(shared: Path) -> None:
    """oneDNN 2.7 shows fp32 tensors for a bf16 convolution, and the canary settles it, by name."""
    found = fp32_probes(shared, "neoverse-n2_torch2.0.1_fpmath-bf16")
    (conv,) = (probe for probe in found if probe.operator == "conv")
    (verdict,) = build_evidence(audit_of(conv), canary_of(found, conv), "bf16", "fastmath").classes
    assert (verdict.precisions, verdict.decided_by) == (("bf16",), ("canary",))


def test_lie_fast_math_that_the_library_ignores(shared: Path) -> None:
    """The log of 2.5.1 says fpmath:bf16 for a convolution that ran in fp32."""
    found = fp32_probes(shared, "neoverse-n2_torch2.5.1_fpmath-bf16")
    (conv,) = (probe for probe in found if probe.operator == "conv")
    assert conv.log.primitives[-2].attributes["fpmath"] == "bf16"
    evidence = build_evidence(audit_of(conv), canary_of(found, conv), "bf16", "fastmath")
    assert evidence.verdict == "NOT_ACTIVE"
    assert "oneDNN was allowed bf16" in evidence.line
    assert "indirect_gemm:acl" in evidence.line
    assert not evidence.proven


def test_lie_variable_overridden(shared: Path) -> None:
    """bf16 was asked for, but oneDNN was never allowed it: the reason says so."""
    found = fp32_probes(shared, "neoverse-n2_torch2.10.0_fpmath-strict")
    evidence = build_evidence(whole(found), canary_of(found, found[0]), "bf16", "fastmath")
    assert evidence.line.startswith("bf16: REQUESTED, NOT ACTIVE (oneDNN was never allowed bf16")
    assert not evidence.proven


def test_lie_reference_kernel(shared: Path) -> None:
    """A model cast to bf16 on 2.5.1 is ACTIVE and yet no success: its convolution ran in ref:any."""
    found = [p for p in probes(log_path(shared, LOGS[-2])) if p.section == "bf16"]
    evidence = build_evidence(whole(found), canary_of(found, found[0]), "bf16", "cast")
    assert evidence.verdict == "ACTIVE"
    assert evidence.reference_kernels == ("oneDNN ref:any",)
    assert evidence.reference_share > 0.5
    assert [warning.code for warning in evidence.warnings] == ["REFERENCE_KERNELS"]
    assert "ref:any" in evidence.warnings[0].message
    assert not evidence.proven


@pytest.mark.parametrize("path", recordings.HERE, ids=lambda path: "_".join(path.stem.split("_")[-2:]))
def test_own_recordings(path: Path) -> None:
    """On x86 without AMX only autocast and cast give bf16; shares add up and little is unattributed."""
    found = recordings.load_recording(path)
    evidence = build_evidence(found.audit, found.canary, found.requested, found.bf16_method)
    expected = {"autocast": "ACTIVE", "cast": "ACTIVE"}
    other = "FP32" if found.requested == "fp32" else "NOT_ACTIVE"
    assert evidence.verdict == expected.get(found.mode, other)
    assert adds_up(evidence)
    assert evidence.unattributed_share < 0.1
    assert evidence.problems == ()
    assert evidence.onednn_version.startswith(("3.7", "2.6"))
    assert {each.operator_class for each in evidence.classes} >= {"conv", "matmul"}
    assert evidence.reference_share == 0.0
    assert evidence.warnings == ()
    assert decode(Evidence, json.loads(json.dumps(encode(evidence)))) == evidence


def test_own_recordings_name_the_library() -> None:
    """With oneDNN off the convolutions show as MKL's sgemm, with it on as oneDNN's kernels."""
    by_mode = {
        path.stem.split("_")[-1]: recordings.load_recording(path) for path in recordings.HERE if "2.10" in path.name
    }

    def kernels(mode: str) -> set[str]:
        found = by_mode[mode]
        rows = build_evidence(found.audit, found.canary, found.requested, found.bf16_method).by_implementation
        return {row.name for row in rows}

    assert "im2col and mkl sgemm" in kernels("off")
    assert not any(name.startswith("oneDNN") for name in kernels("off"))
    assert {"oneDNN jit:avx512_core", "mkl sgemm", "flash attention over mkl sgemm"} <= kernels("fp32")
    assert "flash attention over mkl gemm_bf16bf16f32" in kernels("autocast")
    assert "flash attention over oneDNN brg_matmul:avx512_core" in kernels("fastmath")
    assert "inductor C++ kernels" in kernels("compile")
    assert "oneDNN jit:avx512_core" in kernels("frozen")


CONV = "onednn_verbose,v1,primitive,exec,cpu,convolution,{},forward_training,src:{}::blocked:abcd::f0 {}"


def conv_line(kernel: str, dtype: str, milliseconds: float) -> str:
    tensors = f"wei:{dtype}::blocked:abcd::f0 dst:{dtype}::blocked:abcd::f0"
    rest = f",attr-scratchpad:user,alg:convolution_direct,mb1_ic8oc8_ih8oh8kh3_iw8ow8kw3,{milliseconds}"
    return CONV.format(kernel, dtype, tensors) + rest


def conv_event(seconds: float, dtype: str = "float") -> Event:
    return Event("aten::mkldnn_convolution", seconds, 0, ((1, 8, 8, 8), (8, 8, 3, 3)), (dtype, dtype))


def test_time_that_nothing_explains_stays_unattributed() -> None:
    """What an operator takes beyond its primitive and plausible set-up is shown, not spread."""
    log = parse_onednn(conv_line("jit:avx512_core", "f32", 500.0))
    audit = Audit(1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(1.0)), log, "runtime switch", "mkl 2024.2")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    shares = {row.name: row.share for row in evidence.by_implementation}
    assert shares["oneDNN jit:avx512_core"] == pytest.approx(0.5)
    assert shares["oneDNN set-up"] == pytest.approx(0.001)
    assert shares["unattributed"] == evidence.unattributed_share == pytest.approx(0.499)


def test_operators_join_their_own_primitive() -> None:
    """Two convolutions of different size each get their kernel, whatever else the log holds."""
    wide = conv_line("jit_1x1:avx512_core", "f32", 200.0).replace("ic8oc8", "ic8oc16")
    other = conv_line("brg:x", "f32", 1.0).replace("ic8oc8", "ic4oc4")
    log = parse_onednn("\n".join((other, wide, conv_line("jit:avx512_core", "f32", 100.0))))
    small = conv_event(0.1)
    large = replace(conv_event(0.2), shapes=((1, 8, 8, 8), (16, 8, 3, 3)))
    audit = Audit(1, 0.4, (Event(PASS_EVENT, 0.1, -1), large, small), log, "runtime switch", "mkl")
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


def test_more_than_there_is_time_for_is_not_forced_in() -> None:
    """Primitives without an operator and without room are told, and the shares still add up."""
    log = parse_onednn("\n".join([conv_line("jit:avx512_core", "f32", 100.0)] * 2))
    audit = Audit(1, 0.1, (Event(PASS_EVENT, 0.0, -1), conv_event(0.1)), log, "runtime switch", "mkl")
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    assert evidence.problems == ("1 oneDNN primitives (jit:avx512_core) could not be joined with an operator",)
    assert adds_up(evidence)


def test_without_a_profiler() -> None:
    """The log alone still gives precision; the rest of the wall time is unattributed."""
    log = parse_onednn(conv_line("jit_bf16:avx512_core_bf16", "bf16", 600.0))
    audit = Audit(1, 1.0, (), log, "runtime switch", "mkl", problems=("no working profiler",))
    evidence = build_evidence(audit, canary("bf16", "bf16", "bf16"), "bf16", "cast")
    assert evidence.verdict == "ACTIVE"
    assert evidence.unattributed_share == pytest.approx(0.4)
    assert evidence.problems == ("no working profiler",)


def gemm(name: str, dtype: str, seconds: float = 1.0) -> Event:
    shapes = ((8,), (4, 16), (16, 8)) if "add" in name else ((4, 16), (16, 8))
    return Event(name, seconds, 0, shapes, (dtype,) * len(shapes))


def blas_audit(*events: Event, blas: str = "openblas 0.3.29 neoversen2", **more: object) -> Audit:
    seconds = sum(event.seconds for event in events)
    return Audit(1, seconds, (Event(PASS_EVENT, 0.0, -1), *events), OneDnnLog("3"), "runtime switch", blas, **more)  # type: ignore[arg-type]


def test_sgemm_that_rounds_inside() -> None:
    """A patched BLAS computes fp32 tensors in bf16: no log shows it, the canary does."""
    evidence = build_evidence(blas_audit(gemm("aten::mm", "float")), canary("bf16", "fp32", "fp32"), "fp32")
    assert evidence.verdict == "NOT_FP32"
    assert evidence.decided_by == ("canary",)
    assert "matmul ran in bf16: openblas sgemm" in evidence.line


def test_fp32_needs_a_clean_canary() -> None:
    """An operator of the canary that is not fp32 refuses the baseline, even where the model lacks it."""
    audit = blas_audit(gemm("aten::addmm", "float"))
    assert build_evidence(audit, ALL_FP32, "fp32").verdict == "FP32"
    assert build_evidence(audit, canary("fp32", "fp32", "reduced"), "fp32").verdict == "NOT_FP32"
    assert build_evidence(audit, canary("fp32", "fp32", "broken"), "fp32").verdict == "NOT_FP32"
    assert build_evidence(audit, None, "fp32").verdict == "UNKNOWN"


def test_bf16_in_an_fp32_run() -> None:
    """One product with bf16 operands is enough to refuse the baseline."""
    audit = blas_audit(gemm("aten::mm", "float", 99.0), gemm("aten::addmm", "c10::BFloat16", 1.0))
    evidence = build_evidence(audit, ALL_FP32, "fp32")
    assert evidence.verdict == "NOT_FP32"
    assert "linear ran in bf16" in evidence.line


def test_autocast_that_leaves_operators_in_fp32() -> None:
    """Under autocast the canary's bf16 error is no proof for operands that stayed fp32."""
    audit = blas_audit(gemm("aten::mm", "float", 1.0), gemm("aten::addmm", "c10::BFloat16", 1.0))
    evidence = build_evidence(audit, canary("bf16", "bf16", "bf16"), "bf16", "autocast")
    assert evidence.verdict == "PARTLY"
    assert "linear yes, matmul no; 50 % of compute time" in evidence.line


def test_thresholds() -> None:
    """From 90 % on bf16 is active, under 1 % it is not."""

    def verdict(bf16: float) -> str:
        audit = blas_audit(gemm("aten::mm", "float", 100.0 - bf16), gemm("aten::addmm", "c10::BFloat16", bf16))
        return build_evidence(audit, canary("bf16", "bf16", "bf16"), "bf16", "autocast").verdict

    assert [verdict(share) for share in (90.0, 89.9, 1.0, 0.9)] == ["ACTIVE", "PARTLY", "PARTLY", "NOT_ACTIVE"]


def test_active_names_what_stayed_in_fp32() -> None:
    """A class with little time of its own does not change the verdict, and is not passed over."""
    audit = blas_audit(gemm("aten::mm", "float", 0.1), gemm("aten::addmm", "c10::BFloat16", 99.9))
    line = build_evidence(audit, canary("bf16", "bf16", "bf16"), "bf16", "autocast").line
    assert line == "bf16: ACTIVE (linear yes, matmul no; 100 % of compute time in bf16 kernels)"


def test_undecided_is_unknown() -> None:
    """Where allowed bf16 meets no canary the verdict is unknown, neither active nor not."""
    line = conv_line("gemm:acl", "f32", 900.0).replace("attr-scratchpad:user", "attr-fpmath:bf16")
    audit = Audit(1, 1.0, (Event(PASS_EVENT, 0.0, -1), conv_event(1.0)), parse_onednn(line), "environment", "openblas")
    assert build_evidence(audit, None, "bf16", "fastmath").verdict == "UNKNOWN"


def test_product_that_left_oned_nn_is_not_covered_by_its_canary() -> None:
    """A small Linear through BLAS does not inherit the bf16 of the canary's Linear through oneDNN."""
    line = (
        "onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:acl,undef,src:f32::blocked:ab::f0 "
        "wei:bf16::blocked:ab::f0 dst:f32::blocked:ab::f0,attr-fpmath:bf16,,128x256:256x128,900"
    )
    large = replace(gemm("aten::addmm", "float"), shapes=((128,), (128, 256), (256, 128)))
    events = (Event(PASS_EVENT, 0.0, -1), large, gemm("aten::addmm", "float", 0.5))
    audit = Audit(1, 1.5, events, parse_onednn(line), "runtime switch", "openblas")
    evidence = build_evidence(audit, canary("fp32", "bf16", "bf16"), "bf16", "fastmath")
    assert evidence.classes[0].precisions == ("bf16", "unknown precision")


def test_mkl_names_its_function() -> None:
    """With MKL's own log the kernel is the function that it called."""
    audit = blas_audit(gemm("aten::mm", "float"), blas="mkl 2024.2", blas_calls=(BlasCall("SGEMM", 1, 0.1),))
    assert build_evidence(audit, ALL_FP32, "fp32").by_implementation[0].name == "mkl sgemm"


@pytest.mark.parametrize(
    ("sbgemm", "name"),
    [(True, "openblas sbgemm"), (False, "native bf16"), (None, "openblas sbgemm or native bf16")],
)
def test_a_bf16_product_outside_onednn_is_named_by_what_torch_was_built_with(sbgemm: bool | None, name: str) -> None:
    """OpenBLAS's sbgemm_ where torch calls it, else ATen's own loops; both only where it is unknown."""
    audit = blas_audit(gemm("aten::mm", "c10::BFloat16"), blas="openblas 0.3.30 neoversen2", sbgemm=sbgemm)
    evidence = build_evidence(audit, canary("bf16", "bf16", "bf16"), "bf16", "cast")
    assert evidence.by_implementation[0].name == name
    caption = evidence_tables(evidence)[0].caption
    assert caption == (None if sbgemm is False else "BLAS: openblas 0.3.30 neoversen2")  # the core decides its kernels


def test_nothing_to_judge() -> None:
    """A model without products gives no verdict."""
    audit = blas_audit(Event("aten::relu_", 1.0, 0, ((4, 4),), ("float",)))
    assert build_evidence(audit, ALL_FP32, "fp32").verdict == "UNKNOWN"
    assert build_evidence(audit, ALL_FP32, "bf16", "cast").verdict == "UNKNOWN"


SMALL = places.DATA / "aarch64_neoverse-n2_torch2.10.0_small-conv_fpmath-bf16.log"
"""Convolutions too small for oneDNN's own (recorded on an emulated Neoverse N2): torch unfolds the picture and
gives the product to oneDNN. ``ERR`` is the error against fp64, ``EV`` the operator, its shapes and microseconds."""


def small_audit() -> Audit:
    """One audit of all recorded convolutions."""
    text = SMALL.read_text(encoding="utf-8")
    operators = [
        Event(name, int(micros) * 1e-6, 0, tuple(tuple(shape) for shape in json.loads(shapes)), ("float", "float"))
        for name, shapes, micros in re.findall(r"^EV (\S+) (\[.*\]) (\d+)$", text, re.MULTILINE)
    ]
    seconds = sum(event.seconds for event in operators)
    return Audit(1, seconds, (Event(PASS_EVENT, 0.0, -1), *operators), parse_onednn(text), "runtime switch", "openblas")


def test_unfolded_convolutions_find_their_product() -> None:
    """Their error was bf16's (2e-3); the product in oneDNN's log proves it, and none is left over."""
    evidence = build_evidence(small_audit(), canary("fp32", "bf16", "bf16"), "bf16", "fastmath")
    assert evidence.verdict == "ACTIVE"
    assert [use.implementation for use in evidence.operators] == ["im2col and oneDNN gemm:acl"] * 5
    assert {use.precision for use in evidence.operators} == {"bf16"}
    assert evidence.problems == ()
    assert adds_up(evidence)

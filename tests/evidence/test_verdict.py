"""The verdict on an audit: did bf16 run, is fp32 really fp32?"""

from __future__ import annotations

import json
from pathlib import Path

import onednn_recordings as recordings
import pytest
from evidence_samples import (
    ALL_BF16,
    ALL_FP32,
    adds_up,
    called,
    canary,
    conv,
    conv_line,
    gemm,
    judge,
    onednn_line,
    recording,
    sentence,
)
from onednn_recordings import LOGS, call_of, canary_of, log_path, probes

from modelzoo.evidence.flops import Call
from modelzoo.evidence.recording import RecordedCall, Recording
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.evidence import Evidence, LogSource


def judged(some: list[recordings.Probe], found: list[recordings.Probe], seconds: float | None = None) -> Evidence:
    """The evidence of a pass of ``some`` operators of a log, under the setting of the first one."""
    method = some[0].bf16_method
    table = recording(*(call_of(each, seconds) for each in some))
    return judge(table, canary_of(found, some[0]), "fp32" if method is None else "bf16", method)


ONEDNN_2 = ("neoverse-n2_torch1.13.0_fpmath-bf16", "neoverse-n2_torch2.0.1_fpmath-bf16")


@pytest.mark.parametrize("name", LOGS)
def test_recorded_logs_operator_by_operator(shared: Path, name: str) -> None:
    """Log and canary together find the precision that each operator's error proves, or none.

    Before oneDNN 3 the log of fast math shows no bf16 weights, and a kernel's name does not prove that it used bf16.
    """
    all_probes = probes(log_path(shared, name))
    assert all_probes
    for probe in all_probes:
        evidence = judged([probe], all_probes, 100.0)
        (found,) = evidence.classes
        assert found.operator_class == probe.operator
        is_hidden = (probe.bf16_method, probe.truth) == ("fastmath", "bf16") and name in ONEDNN_2
        precision = "unknown precision" if is_hidden else probe.truth
        assert found.precisions == (precision,), (probe.section, probe.operator)
        expected = {("bf16", "bf16"): "ACTIVE", ("bf16", "fp32"): "NOT_ACTIVE", ("fp32", "fp32"): "FP32"}
        assert evidence.verdict == ("UNKNOWN" if is_hidden else expected[evidence.requested, probe.truth])
        assert adds_up(evidence)


def test_variable_overridden(shared: Path) -> None:
    """If oneDNN was never allowed bf16, the reason says so."""
    found = recordings.fp32_probes(shared, "neoverse-n2_torch2.10.0_fpmath-strict")
    table = recording(*map(call_of, found))
    evidence = judge(table, canary_of(found, found[0]), "bf16", "fastmath")
    assert sentence(evidence).startswith("bf16: REQUESTED, NOT ACTIVE (oneDNN was never allowed bf16")


def test_reference_kernel(shared: Path) -> None:
    """A model cast to bf16 on 2.5.1 is ACTIVE and still not accepted: its convolution ran in ref:any."""
    found = [p for p in probes(log_path(shared, LOGS[-2])) if p.section == "bf16"]
    evidence = judged(found, found)
    assert evidence.verdict == "ACTIVE"
    assert evidence.reference_kernels == ("oneDNN ref:any",)
    assert evidence.reference_share > 0.5
    assert [warning.code for warning in evidence.warnings] == ["REFERENCE_KERNELS"]
    assert "ref:any" in evidence.warnings[0].message


VERDICTS = {"fp32": "FP32", "off": "FP32", "compile": "FP32", "frozen": "FP32", "autocast": "ACTIVE", "cast": "ACTIVE"}
"""What fast math allows, oneDNN does not use on x86 without AMX; on Arm, attention stays in fp32 (OpenBLAS).

On an AMD CPU with AVX-512 bf16, MKL multiplies attention's bf16 tensors in fp32."""


@pytest.mark.parametrize("path", recordings.TABLES, ids=lambda path: path.stem)
def test_recorded_passes(path: Path) -> None:
    """bf16 is seen where it runs, and only there; shares add up and little is unattributed."""
    found = recordings.load_table(path)
    evidence = judge(found.recording, found.canary, found.requested, found.bf16_method)
    allowed = "PARTLY" if "neoverse-n2" in path.name else "NOT_ACTIVE"
    expected = VERDICTS.get(found.mode, allowed)
    if "x86_64-avx512_bf16" in path.name and expected == "ACTIVE":
        expected = "PARTLY"
        assert "attention no" in sentence(evidence)
    assert evidence.verdict == expected
    assert adds_up(evidence)
    assert (evidence.coverage.known_arithmetic, evidence.problems) == (1.0, ())
    assert {each.operator_class for each in evidence.classes} >= {"conv", "attention"}
    assert (evidence.reference_share, evidence.warnings) == (0.0, ())
    assert decode(Evidence, json.loads(json.dumps(encode(evidence)))) == evidence


def test_fp32_needs_a_clean_canary() -> None:
    """Every canary operator must be fp32, even one that the model does not use.

    If a patched BLAS computes fp32 tensors in bf16, only the canary shows it.
    """
    evidence = judge(recording(gemm("aten::mm", "float32")), canary("bf16", "fp32", "fp32"), "fp32")
    assert evidence.classes[0].decided_by == ("canary",)
    assert sentence(evidence).startswith("fp32: NOT FP32 (matmul ran in bf16: openblas sgemm")
    audit = recording(gemm("aten::addmm", "float32"))
    assert judge(audit, ALL_FP32, "fp32").verdict == "FP32"
    assert judge(audit, canary("fp32", "fp32", "reduced"), "fp32").verdict == "NOT_FP32"
    assert judge(audit, canary("fp32", "fp32", "broken"), "fp32").verdict == "NOT_FP32"
    assert judge(audit, None, "fp32").verdict == "UNKNOWN"


def test_autocast_that_leaves_operators_in_fp32() -> None:
    """Under autocast the canary's bf16 error proves nothing about operands that stayed fp32."""
    audit = recording(gemm("aten::mm", "float32", 1.0), gemm("aten::addmm", "bfloat16", 1.0))
    evidence = judge(audit, ALL_BF16, "bf16", "autocast")
    assert evidence.verdict == "PARTLY"
    assert "linear yes, matmul no; bf16 kernels took 50 % of the time in matrix products" in sentence(evidence)


def mixed(fp32: int, bf16: int, *, seconds: tuple[float, float] | None = None) -> Recording:
    """A matrix product in fp32 and a layer in bf16, of so many rows each, which took as long or ``seconds``."""
    of_fp32, of_bf16 = seconds or (float(fp32), float(bf16))
    return recording(
        gemm("aten::mm", "float32", of_fp32, rows=fp32), gemm("aten::addmm", "bfloat16", of_bf16, rows=bf16)
    )


def test_thresholds() -> None:
    """bf16 is active from 90 % of the arithmetic on and not active below 1 %."""

    def verdict(bf16: int) -> str:
        return judge(mixed(1000 - bf16, bf16), ALL_BF16, "bf16", "autocast").verdict

    assert [verdict(share) for share in (900, 899, 10, 9)] == ["ACTIVE", "PARTLY", "PARTLY", "NOT_ACTIVE"]


def test_active_names_what_stayed_in_fp32() -> None:
    """A class that does little of the work does not change the verdict, but is named."""
    line = sentence(judge(mixed(1, 999), ALL_BF16, "bf16", "autocast"))
    assert (
        line == "bf16: ACTIVE (linear yes, matmul no; bf16 kernels took 100 % of the time in matrix products, "
        "100 % of the pass, and did 100 % of the arithmetic)"
    )


@pytest.mark.parametrize("seconds", [(1.0, 99.0), (99.0, 1.0)])
def test_the_arithmetic_decides_and_not_the_time(seconds: tuple[float, float]) -> None:
    """Slow or fast kernels would hide half of the model."""
    found = judge(mixed(500, 500, seconds=seconds), ALL_BF16, "bf16", "autocast")
    assert found.verdict == "PARTLY"
    assert f"took {seconds[1]:.0f} % of the time in matrix products" in sentence(found)
    assert "did 50 % of the arithmetic" in sentence(found)


def hiding(*calls: RecordedCall, flop: int, seconds: float) -> Recording:
    """A pass of these calls whose eager model does ``flop`` operations of a layer beside them."""
    hidden = Call("aten::addmm", (), flop, 0)
    counted = [*(each.call for each in calls), hidden]
    return replace(recording(*calls, seconds=seconds), eager=tuple(("", each) for each in counted))


def test_generated_code_that_hides_the_products_is_unknown() -> None:
    """Templates of max-autotune call no library: what they multiply is counted, and no product accounts for it."""
    found = hiding(gemm("aten::bmm", "bfloat16"), flop=9 * 1024, seconds=10.0)
    evidence = judge(found, ALL_BF16, "bf16", "autocast")
    assert sentence(evidence) == (
        "bf16: UNKNOWN (bf16 kernels took 100 % of the time in matrix products, 10 % of the pass; "
        "the precision of 90 % of the arithmetic is not known; "
        "what ran in 90 % of the time is not known (between operators 90 %))"
    )
    plain = judge(hiding(flop=1024, seconds=10.0), ALL_FP32, "fp32")
    assert sentence(plain).startswith(
        "fp32: UNKNOWN (the precision of 100 % of the arithmetic is not known; what ran in"
    )


@pytest.mark.parametrize(("bf16", "fp32", "verdict"), [(10, 100, "PARTLY"), (9, 101, "UNKNOWN"), (11, 99, "UNKNOWN")])
def test_both_precisions_are_partly_whatever_the_rest_is(bf16: int, fp32: int, verdict: str) -> None:
    """With 1 % of the arithmetic in bf16 and 10 % in fp32, whatever generated code hides cannot make bf16 active."""
    calls = (gemm("aten::mm", "float32", rows=fp32), gemm("aten::addmm", "bfloat16", rows=bf16))
    evidence = judge(hiding(*calls, flop=(1000 - bf16 - fp32) * 256, seconds=9.0), ALL_BF16, "bf16", "autocast")
    assert not evidence.coverage.is_enough
    assert evidence.verdict == verdict


def test_without_a_kernel_log_onednn_may_have_run_anything() -> None:
    """fp32 operands show nothing then, unless this torch has no oneDNN."""
    table = recording(gemm("aten::addmm", "float32"), log_source=LogSource.NONE, shows_onednn=False)
    assert judge(table, ALL_FP32, "fp32").verdict == "UNKNOWN"
    assert judge(replace(table, shows_onednn=True), ALL_FP32, "fp32").verdict == "FP32"


def test_undecided_is_unknown() -> None:
    """If bf16 was allowed and no canary ran, the verdict is UNKNOWN."""
    line = conv_line("gemm:acl", "f32", 900.0, "attr-fpmath:bf16")
    assert judge(recording(conv(1.0, lines=line)), None, "bf16", "fastmath").verdict == "UNKNOWN"


def test_a_product_narrower_than_bf16_is_not_active() -> None:
    """However little of the time and of the arithmetic it takes."""
    audit = recording(gemm("aten::_int_mm", "int8", 1.0), gemm("aten::addmm", "bfloat16", 99.0, rows=396))
    evidence = judge(audit, ALL_BF16, "bf16", "autocast")
    assert evidence.verdict == "PARTLY"
    assert "matmul ran in int8: aten::_int_mm (int8)" in sentence(evidence)


def test_what_was_not_counted_is_not_proven() -> None:
    """The products may not be all of them."""
    found = replace(recording(gemm("aten::mm", "float32")), eager=None)
    assert sentence(judge(found, ALL_FP32, "fp32")) == "fp32: UNKNOWN (the operations of the pass were not counted)"


def test_a_narrow_reorder_without_a_product_is_not_proven() -> None:
    """Something was converted to int8, and nothing that was seen multiplied it."""
    reorder = onednn_line("reorder", "jit:uni", "src:f32 dst:s8", "16x8")
    line = sentence(judge(recording(gemm("aten::mm", "float32", lines=reorder)), ALL_FP32, "fp32"))
    assert line == "fp32: UNKNOWN (the kernel log has int8, which no product explains)"


def test_nothing_to_judge() -> None:
    """A model without products cannot be judged."""
    audit = recording(called("aten::relu_", "float32", 1.0, (4, 4)))
    assert judge(audit, ALL_FP32, "fp32").verdict == "UNKNOWN"
    assert judge(audit, ALL_FP32, "bf16", "cast").verdict == "UNKNOWN"

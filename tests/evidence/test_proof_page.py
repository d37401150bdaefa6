"""docs/proof.md: its figures and its words are those of the code."""

from __future__ import annotations

import re

import pytest
from fake_runs import evidence
from places import ROOT
from planted_kernels import ROUNDINGS

from modelzoo.evidence import canary, replay
from modelzoo.evidence.probes import INT8_BELOW, SMALL, TINY, noise, relative_error
from modelzoo.records.evidence import ProofVerdict
from modelzoo.views import proof

PAGE = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")


def test_the_page_names_all_verdicts() -> None:
    """In the words of the output."""
    of_fp32, _, of_reduced = PAGE[PAGE.index("The verdict on fp32") : PAGE.index("`--strict`")].partition(";")
    of_fp32, of_reduced = " ".join(of_fp32.split()), " ".join(of_reduced.split())
    both = {ProofVerdict.UNKNOWN, ProofVerdict.WRONG_RESULTS}
    fp32 = {ProofVerdict.FP32, ProofVerdict.NOT_FP32, *both}
    for verdict in ProofVerdict:
        words = str(proof.audit(evidence(verdict))).split(": ")[1].split(" (")[0].removeprefix("REQUESTED, ")
        assert (words in of_fp32) is (verdict in fp32)
        assert (words in of_reduced) is (verdict not in fp32 - both)


def test_the_thresholds_of_the_page_are_those_of_the_code() -> None:
    """In its table, and the seconds for replays."""
    rows = re.findall(r"^\| below ([\d.]+) × 10⁻(.) \|", PAGE, re.MULTILINE)
    wanted = (canary.FP32_BELOW, canary.BF16_FROM, canary.BF16_BELOW, INT8_BELOW)
    powers = {"²": -2, "³": -3, "⁴": -4, "⁵": -5}
    assert [float(factor) * 10 ** powers[power] for factor, power in rows] == pytest.approx(wanted)
    assert (TINY, SMALL) == (2.0**-30, 2.0**-10)
    limits = [replay.budget_after(seconds) for seconds in (3.0, 4.0, 7.0, 60.0)]
    assert limits == [6.0, 5.0, 2.0, 2.0]
    said = "6 s or, if a pass takes more than 3 s, to 9 s minus the duration of that pass, but never to less than 2 s"
    assert said in " ".join(PAGE.split())


@pytest.mark.parametrize(("rounding", "unit"), [("bf16", 1.0), ("tf32", 0.125), ("fp16", 0.125)])
def test_errors_of_rounded_numbers_are_those_of_the_page(rounding: str, unit: float) -> None:
    """From one number that is rounded to attention that rounds its operands, weights and output."""
    rounded = ROUNDINGS[rounding]
    rows, weights, values = (noise(seed)[: 64 * 64].reshape(64, 64) for seed in range(3))
    exact = rows.double() @ weights.double()
    one = relative_error([(rounded(exact.float()), exact)])
    three = relative_error([(rounded(rounded(rows) @ rounded(weights)), exact)])
    attended = (exact / 8).softmax(-1) @ values.double()
    scores = (rounded(rows) @ rounded(weights) / 8).softmax(-1)
    most = relative_error([(rounded(rounded(scores) @ rounded(values)), attended)])
    assert 1.2e-3 * unit < one < three < most < 3.8e-3 * unit
    assert ("1.2 to 3.8 × 10⁻³" if unit == 1 else "1.5 to 4.8 × 10⁻⁴") in PAGE

"""benchmarks/wrong_kernels.py: planted faults are found, and what rounding explains is not called wrong."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest
import torch
import wrong_kernels
from operator_calls import ELEMENTWISE, OPERATORS, Call, bound, drawn, wrong
from places import ROOT
from programs import ran
from wrong_kernels import RIGHT

PLANTED = f"""
import os, sys, time

sys.path.insert(0, {str(ROOT / "benchmarks")!r})

import operator_calls, wrong_kernels

def planted(call, operands):
    found, exact, allowed = operator_calls.product(call, operands)
    if call.seed == 1:
        found[:, 77] += 1.0
    if call.seed == 2:
        found[call.shapes[0][0] // 2 + 1, 5] = float("nan")
    if call.seed == 3:
        time.sleep(600)
    if call.seed == 4:
        os.abort()
    return found, exact, allowed

def chosen(operators, shapes, seed, engines):
    for each in range(6):
        fill = operator_calls.NAN_ROW if each == 2 else operator_calls.NOISE
        yield operator_calls.Call("mm", ((8, 64), (64, 128)), "bfloat16", fill=fill, seed=each)
    yield operator_calls.Call("mm", ((8, 64), (65, 128)), "bfloat16")

wrong_kernels.OPERATORS["mm"] = planted
wrong_kernels.chosen = chosen
wrong_kernels.LIMITS = ("DEFAULT",)
if __name__ == "__main__":
    sys.exit(wrong_kernels.main())
"""


def test_planted_faults_are_found(tmp_path: Path) -> None:
    """One wrong channel of 128, a NaN in another row, a call that hangs and one that crashes; two calls are right."""
    script = tmp_path / "planted.py"
    script.write_text(PLANTED)
    done = ran(sys.executable, script, "--seconds", "2")
    assert (done.returncode, done.stderr) == (1, "")
    found = [line for line in done.stdout.splitlines() if ", without oneDNN: mm in bfloat16, 8×64" in line]
    assert [line.split(",")[0] for line in sorted(found)] == ["CRASHES", "HANGS", "WRONG", "WRONG"]
    crash, hang, row, channel = sorted(found)
    assert "exit code -6" in crash
    assert "has not returned after 2 s" in hang
    assert "8 of 1024 outputs; at [0, 77]" in channel
    assert "NaN in one row: not finite where fp64 is, or the reverse: 1 of 1024 outputs; at [5, 5] nan" in row
    last = done.stdout.splitlines()[-1]
    assert re.search(": 4 wrong, 1 refused|: 8 wrong, 2 refused", last), last  # torch may have no oneDNN


def test_honest_products_are_not_wrong() -> None:
    """One shape of each operator, in fp32 or int8, and long sums."""
    dice = random.Random(1)
    calls = [drawn(operator, dice, ["fbgemm"]) for operator in OPERATORS if operator not in ELEMENTWISE]
    calls += [Call("mm", ((4, 50_000), (50_000, 4)), "bfloat16"), Call("exp", ((1000,),), "float32")]
    with torch.inference_mode():
        assert {str(call): wrong_kernels.answer(call) for call in calls} == dict.fromkeys(map(str, calls), (RIGHT, ""))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_lost_product_of_many_is_more_than_rounding(dtype: torch.dtype) -> None:
    """An output of 256 products that is rounded at the end is right, one from which the largest is missing is not."""
    left, right = (torch.randn(64, 256, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in (0, 1))
    products = left.double() * right.double()
    exact, allowed = products.sum(-1), bound(products.abs().sum(-1), 256, dtype)
    assert wrong(exact.to(dtype), exact, allowed) == ""
    assert wrong(exact - products.abs().amax(-1), exact, allowed)

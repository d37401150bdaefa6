"""Single products, recorded with several releases on several CPUs: which kernel ran, and in which precision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from modelzoo.evidence.canary import level_of
from modelzoo.evidence.kernel_names import precision_of
from modelzoo.evidence.logs import logged_precision, parse_onednn
from modelzoo.records.canary import CanaryLevel

DATA = Path(__file__).parents[1] / "data"
CALLS = sorted(DATA.glob("calls_x86_64-amx_*.json"))
"""16 products by release and limit of oneDNN's instruction set, on an Intel CPU with AMX: the lines of the log, and the
relative root-mean-square error against fp64. A probe with subnormal products gives 0 where bf16 instructions ran, which
flush them, and 1 where bf16 was emulated."""

LEVELS = {"bfloat16": CanaryLevel.BF16, "float16": CanaryLevel.REDUCED, "float32": CanaryLevel.FP32}


@pytest.mark.parametrize("path", CALLS, ids=lambda path: path.stem)
def test_the_log_and_the_error_of_a_product_show_the_same_precision(path: Path) -> None:
    """Under every limit; but for the convolution whose results are wrong on AMX, whatever its line says."""
    recorded = json.loads(path.read_text())
    for call in recorded["calls"]:
        log = parse_onednn("\n".join(call["lines"]))
        assert log.unread == (), call["product"]
        products = [each for each in log.primitives if each.is_compute]
        assert {logged_precision(each) for each in products} <= {precision_of(call["dtype"])}, call["product"]
        is_wrong = call["product"] == "conv1d_grouped_wrong" and recorded["isa"] == "ALL"
        expected = CanaryLevel.BROKEN if is_wrong else LEVELS[call["dtype"]]
        assert level_of(call["error"]) == expected, call["product"]

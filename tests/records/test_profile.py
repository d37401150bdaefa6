"""The record of an operator profile."""

from __future__ import annotations

import json

from modelzoo.records.codec import decode, encode
from modelzoo.records.profile import Flops, LayerRow, OperatorRow, Profile

PROFILE = Profile(
    iterations=2,
    seconds=1.0,
    operators=(OperatorRow("aten::mm", ((4, 8), (8, 2)), 2, 0.5, 0.5, 256, 448, "mkl sgemm", "fp32"),),
    layers=(LayerRow("fc", "Linear", 2, 0.6, 0.1, 0.6, 256),),
    flops=Flops(128, 224, {"aten::mm": 128}, ("aten::addr",)),
    trace="/tmp/trace.json",
    problems=("a problem",),
)


def test_a_profile_survives_json() -> None:
    """Shapes come back as tuples, missing operations as None."""
    assert decode(Profile, json.loads(json.dumps(encode(PROFILE)))) == PROFILE
    empty = Profile(1, 0.0, (), (), None, None, ())
    assert decode(Profile, json.loads(json.dumps(encode(empty)))) == empty


def test_rates() -> None:
    """Operations and bytes per second, and operations per byte."""
    (row,) = PROFILE.operators
    assert row.gflops_per_second == 256 / 0.5 / 1e9
    assert row.gigabytes_per_second == 448 / 0.5 / 1e9
    assert row.intensity == 256 / 448


def test_rates_of_nothing() -> None:
    """An operator without operations or time has no rate."""
    row = OperatorRow("aten::view", (), 1, 0.0, 0.0, 0, 0)
    assert row.gflops_per_second is row.gigabytes_per_second is row.intensity is None

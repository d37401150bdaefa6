"""The records of the weights and of the counts that the amount of work depends on."""

from __future__ import annotations

import json

import pytest

from modelzoo.records.codec import decode, encode
from modelzoo.records.workload import Count, Weights, WeightsKind

WEIGHTS = Weights(WeightsKind.RANDOM, "seed 3", "/cache/toy.safetensors", "ab12", 3)


def test_weights_survive_json() -> None:
    """The kind is stored as its word, and what is read equals what was written."""
    stored = json.loads(json.dumps(encode(WEIGHTS)))
    assert stored["kind"] == "random"
    assert decode(Weights, stored) == WEIGHTS


def test_pretrained_weights_need_no_seed() -> None:
    """Results of checkpoints store no seed or null, and both are read."""
    stored = {"kind": "pretrained", "name": "n", "path": "/p", "sha256": "ab", "reason": "found on this machine"}
    assert decode(Weights, stored) == decode(Weights, {**stored, "seed": None})
    assert decode(Weights, stored).kind is WeightsKind.PRETRAINED


@pytest.mark.parametrize(("value", "is_typical"), [(4.9, False), (5, True), (42.5, True), (100, True), (101, False)])
def test_a_count_is_compared_with_the_range_of_trained_weights(value: float, is_typical: bool) -> None:
    """Both ends belong to the range; the count survives JSON, whole numbers included."""
    count = Count("detections per image", value, 5, 100, "a source")
    assert count.is_typical is is_typical
    assert decode(Count, json.loads(json.dumps(encode(count)))) == count

"""A run's position under the roofline."""

from __future__ import annotations

import json

from modelzoo.records.codec import decode, encode
from modelzoo.records.profile import Bound, BoundBy


def test_a_bound_survives_json() -> None:
    """The limit is stored as a word, and unknown figures as null."""
    known = Bound("fp32", 150.0, 300.0, 0.5, 40.0, 15.0, 0.5, BoundBy.COMPUTE)
    unknown = Bound("fp32", 150.0, None, None, None, None, None, None)
    assert json.loads(json.dumps(encode(known)))["bound_by"] == "compute"
    for bound in (known, unknown):
        assert decode(Bound, json.loads(json.dumps(encode(bound)))) == bound

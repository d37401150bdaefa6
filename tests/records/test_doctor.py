"""The doctor's report, which contains the records of the machine, the libraries and the ceilings."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from modelzoo.records.codec import decode, encode
from modelzoo.records.doctor import DoctorReport


@given(st.builds(DoctorReport))
def test_every_report_survives_json(report: DoctorReport) -> None:
    """Any report, with or without its optional fields, is read as it was written."""
    text = json.dumps(encode(report))
    assert json.dumps(encode(decode(DoctorReport, json.loads(text)))) == text

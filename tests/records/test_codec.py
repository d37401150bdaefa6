"""Every record survives JSON, on every supported version of Python, and damage is refused.

Needs neither torch nor a machine: ``python3 -m pytest tests/records`` runs it where nothing but msgspec is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from record_strategies import all_records, values

from modelzoo.errors import UsageError
from modelzoo.records import protocol
from modelzoo.records.codec import decode, encode, encode_json
from modelzoo.records.run import Thumbnail
from modelzoo.setting import ResolvedSetting, Setting

RECORDS = [each for each in all_records() if each is not protocol.Answer]  # its content is JSON already
# The largest records consist of hundreds of fields, which take a moment to draw.
THOROUGH = settings(max_examples=15, suppress_health_check=list(HealthCheck))


def test_all_records_are_found() -> None:
    """The result, its deepest parts, settings and messages are among them; a new record is included by itself."""
    names = {record.__name__ for record in RECORDS}
    assert {"Result", "OperatorCheck", "ResolvedSetting", "Assignment", "PartialResult", "WarningMessage"} <= names
    assert len(RECORDS) > 70


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
@given(data=st.data())
@THOROUGH
def test_records_survive_json(record: type, data: st.DataObject) -> None:
    """What is read equals what was written, as values and as text; the text is strict JSON."""
    value = data.draw(values(record))
    assert decode(record, encode(value)) == value
    text = encode_json(value)
    assert decode(record, msgspec.json.decode(text)) == value
    assert decode(record, json.loads(text)) == value


@pytest.mark.parametrize(
    ("kind", "write", "read"),
    [
        *((each, encode_json, protocol.decode_message) for each in get_args(protocol.Message)),
        *((each, protocol.encode_job, protocol.decode_job) for each in get_args(protocol.Job)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@given(data=st.data())
@THOROUGH
def test_messages_and_jobs_survive_the_pipe(
    kind: type, write: Callable[[Any], bytes], read: Callable[[bytes], Any], data: st.DataObject
) -> None:
    """Each is one line, which names its own type."""
    value = data.draw(values(kind))
    line = write(value)
    assert b"\n" not in line
    assert read(line) == value


def test_settings_are_checked_when_they_are_read() -> None:
    """Nonsense in a file or a message is refused like nonsense on the command line."""
    with pytest.raises(UsageError, match="--batch must be 1 or more, not 0"):
        decode(Setting, {"batch": 0})
    with pytest.raises(msgspec.ValidationError, match="bf16 with bf16=None is not resolved"):
        decode(ResolvedSetting, {"precision": "bf16"})
    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `null` - at `\$.threads`"):
        decode(ResolvedSetting, {"threads": None})


@dataclass(frozen=True)
class Figures:
    """A record with numbers and bytes."""

    value: float | None
    count: int = 0
    data: bytes = b""


def test_numbers_that_json_does_not_have_become_null() -> None:
    """NaN and infinities; a field that may be so is optional."""
    for number in (math.nan, math.inf, -math.inf):
        assert decode(Figures, json.loads(encode_json(Figures(number)))) == Figures(None)


def test_numbers_of_libraries_become_plain() -> None:
    """numpy's scalars are stored as numbers; other objects are no part of a record."""
    numpy = pytest.importorskip("numpy")
    figures = Figures(numpy.float32(0.5), numpy.int64(3))
    assert encode(figures) == {"value": 0.5, "count": 3, "data": ""}
    assert json.loads(encode_json(figures)) == {"value": 0.5, "count": 3, "data": ""}
    with pytest.raises(TypeError, match="a object cannot be part of a record"):
        encode(Figures(object()))


@given(st.text(alphabet=st.characters()))
def test_every_string_can_be_encoded(text: str) -> None:
    """Names of files in another encoding contain lone surrogates, which become escapes."""
    thumbnail = Thumbnail(text, b"\xff")
    expected = text.encode("utf-8", "backslashreplace").decode()
    assert decode(Thumbnail, json.loads(encode_json(thumbnail))) == Thumbnail(expected, b"\xff")

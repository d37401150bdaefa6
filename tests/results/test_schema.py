"""The JSON schema is generated from the records, and fits every stored result and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fake_runs import make, result_of
from stored_results import STORED, damage, name, unpacked, written

from modelzoo.cli import main
from modelzoo.frozen import replace
from modelzoo.records.codec import decode, encode
from modelzoo.records.run import FORMAT, Result
from modelzoo.results import schema, store
from modelzoo.results.store import mask

SCHEMA = schema.result_schema()


def test_list_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """It is JSON, without lines around it, and valid against draft 2020-12, which it names; fields are described."""
    assert main(["list", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"].endswith("draft/2020-12/schema")
    assert SCHEMA["$id"] == SCHEMA["$defs"]["Result"]["properties"]["format"]["const"] == FORMAT
    assert SCHEMA["$defs"]["Timing"]["properties"]["cold_start"]["description"]


@pytest.mark.parametrize("stored", STORED, ids=name)
def test_stored_results_fit_the_schema(stored: Path, tmp_path: Path) -> None:
    """Stored again, they have the current format without the fields that have ended, and no more private names."""
    result = store.read(unpacked(stored, tmp_path))
    jsonschema.validate(written(result, tmp_path), SCHEMA)
    expected = decode(Result, mask(encode(replace(result, format=FORMAT), keep_bytes=True)))
    assert store.read(tmp_path / "r.json") == expected


def places(data: Any) -> list[Any]:
    """Every object of the records in ``data``."""
    if isinstance(data, list):
        return [place for each in data for place in places(each)]
    return [data, *(place for each in data.values() for place in places(each))] if isinstance(data, dict) else []


def test_an_unknown_field_does_not_fit_the_schema(tmp_path: Path) -> None:
    """In no record: only maps (environment variables, options, versions) take any name. A failed run fits."""
    data = written(result_of(make([1.0]), make(None, error="the worker died")), tmp_path)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    assert validator.is_valid(data)
    accepted = []
    for place in places(data):
        place["misspelt"] = []
        accepted += [place] if validator.is_valid(data) else []
        del place["misspelt"]
    assert accepted == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "modelzoo-result/2"),
        (("format",), "modelzoo-result/5"),
        (("runs", 0, "requested", "precision"), "fp8"),
        (("runs", 0, "report", "timing", "series", 0, "values"), [-1.0]),
    ],
)
def test_the_schema_refuses_wrong_values(path: tuple[Any, ...], value: Any, tmp_path: Path) -> None:
    """The check can fail: other versions, other words, negative times."""
    data = written(result_of(make([1.0])), tmp_path)
    damage(data, path, value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, SCHEMA)

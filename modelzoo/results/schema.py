"""The JSON schema of stored results, generated from the records: ``modelzoo list --schema``.

It rejects unknown fields, although ``modelzoo.results.store.read`` ignores them.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any, Union

import msgspec

from modelzoo.records.run import FORMAT, Result
from modelzoo.setting import DEFAULTS, ResolvedSetting, Setting, fields

Json = dict[str, Any]
_ALWAYS_WRITTEN = {"Result": ("format", "version", "requested", "runs", "validity", "payload")}
"""Fields with a default that every stored result has."""


def result_schema() -> Json:
    """Return the schema of this version of the format (JSON Schema, draft 2020-12)."""
    (schema,), records = msgspec.json.schema_components([Result], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": FORMAT,
        "title": "Result of one call of modelzoo",
        **schema,
        "$defs": {name: _strict(name, record) for name, record in records.items()},
    }


def _strict(name: str, record: Json) -> Json:
    """The schema of one record, without unknown fields, and with its docstring as descriptions."""
    summary, described = split_docstring(record.get("description", ""))
    record = {**record, "description": summary} if summary else record
    if "properties" not in record:  # an enum
        return record
    constraints: dict[str, Json] = {}
    if name in (Setting.__name__, ResolvedSetting.__name__):
        constraints, described = _of_setting(), _described()
    properties = {
        field: {**_plain(schema), **constraints.get(field, {}), **_description(described.get(field))}
        for field, schema in record["properties"].items()
    }
    required = [field for field in properties if field in {*record["required"], *_ALWAYS_WRITTEN.get(name, ())}]
    return {**record, "properties": properties, "required": required, "additionalProperties": False}


def _of_setting() -> dict[str, Json]:
    """What the declarations of a setting's fields say of their values."""
    found: dict[str, Json] = {}
    for name, field in fields().items():
        if field.choices and not field.others:
            optional = [None] if DEFAULTS[name] is None else []
            found[name] = {"enum": [*field.choices, *optional]}
        elif field.low is not None:
            found[name] = {"minimum": field.low}
    return found


def _described() -> dict[str, str]:
    """What the declarations say of the fields; ``options`` has no declaration."""
    own = {"options": "values of the workload's own options (``size``, ``sequence`` …)"}
    return {**{name: field.help for name, field in fields().items()}, **own}


def _plain(schema: Json) -> Json:
    """Leave out defaults: a stored result has the value that it had, whatever is the default today."""
    return {key: value for key, value in schema.items() if key != "default"}


def _description(text: Union[str, None]) -> Json:
    return {"description": text} if text else {}


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a record's docstring into its text and the descriptions of its fields (its ``Attributes`` section)."""
    summary, _, attributes = inspect.cleandoc(text).partition("Attributes:")
    described: dict[str, str] = {}
    # Several fields may share a line: "boxes: K boxes. scores: K scores".
    parts = re.split(r"(?:^|\.\s|\n)\s*((?:\w+, )*\w+): ", inspect.cleandoc(attributes))
    for names, description in zip(parts[1::2], parts[2::2]):
        described.update(dict.fromkeys(names.split(", "), _one_line(description)))
    return _one_line(summary), described


def _one_line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def schema_text() -> str:
    """Return the schema as JSON."""
    return json.dumps(result_schema(), indent=1, ensure_ascii=False) + "\n"

"""The JSON schema of stored results, generated from the records: ``modelzoo list --schema``.

It rejects unknown fields, although ``modelzoo.results.store.read`` ignores them.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

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
        described = {"options": "values of the workload's own options (``size``, ``sequence`` …)"}
        for field, declared in fields().items():
            described[field] = declared.help
            if declared.choices and not declared.others:
                optional = [None] if DEFAULTS[field] is None else []
                constraints[field] = {"enum": [*declared.choices, *optional]}
            elif declared.low is not None:
                constraints[field] = {"minimum": declared.low}
    properties: dict[str, Json] = {}
    for field, given in record["properties"].items():
        # Without its default: a stored result has the value that it had, whatever is the default today.
        kept = {key: value for key, value in given.items() if key != "default"}
        properties[field] = kept | constraints.get(field, {})
        if described.get(field):
            properties[field]["description"] = described[field]
    required = [field for field in properties if field in {*record["required"], *_ALWAYS_WRITTEN.get(name, ())}]
    return {**record, "properties": properties, "required": required, "additionalProperties": False}


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

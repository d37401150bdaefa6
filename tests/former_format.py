"""Results of format 1 as data of format 2, for ``converted_results.py``, with which it will go."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Callable, Optional

LATENCY, ISSUE, DEVICE, SECONDS = "latency", "issue", "device", "s"
Json = dict[str, Any]
_SAME_IN_REPORT = (
    *("workload", "title", "unit", "plan", "weights", "items", "import_seconds", "build_seconds", "compile_seconds"),
    *("canary", "switches", "environment", "counts", "peak_memory", "machine", "libraries", "flops", "profile"),
)


def upgrade(data: Json) -> Json:
    """Return a result of format 1 as data of format 2.

    Fields that are missing stay missing, so that decoding names them.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: the data is not a result.
    """
    entries = [*data["runs"], *data.get("validity", ())]
    asked = _asked(data.get("asked", ()), entries)
    keys = [_key(entry) for entry in asked]
    return {
        **_only(data, "command", "created", "version"),
        "format": "modelzoo-result/2",
        "asked": asked,
        "runs": [_run(entry, keys) for entry in data["runs"]],
        "validity": [_validity_entry(entry, keys) for entry in data.get("validity", ())],
    }


def _asked(listed: Iterable[Json], entries: Iterable[Json]) -> list[Json]:
    """List what was asked for. 'modelzoo validate' did not store it, so its judgements name the rest."""
    asked = [{"workload": entry["workload"], "setting": _setting(entry["setting"])} for entry in listed]
    for entry in entries:
        found = {"workload": entry["workload"], "setting": _setting(entry["asked"])}
        if found not in asked:
            asked.append(found)
    return asked


def _key(asked: Json) -> str:
    return json.dumps([asked["workload"], asked["setting"]], sort_keys=True)


def _only(data: Json, *names: str) -> Json:
    return {name: data[name] for name in names if name in data}


def _renamed(data: Json, **names: str) -> Json:
    """Return a copy of ``data`` in which the fields ``names`` have the names that they are mapped to."""
    return {names.get(name, name): value for name, value in data.items()}


def _optional(convert: Callable[[Json], Json], data: Optional[Json]) -> Optional[Json]:
    return None if data is None else convert(data)


def _setting(data: Json) -> Json:
    return _renamed(data, way="bf16_method")


def _run(data: Json, keys: list[str]) -> Json:
    asked = _setting(data["asked"])
    return {
        **_only(data, "workload", "round", "started", "error", "error_kind"),
        "group": keys.index(_key({"workload": data["workload"], "setting": asked})),
        "asked": asked,
        "report": _optional(_report, data.get("report")),
    }


def _report(data: Json) -> Json:
    return {
        **_only(data, *_SAME_IN_REPORT),
        "setting": _setting(data["setting"]),
        "timing": _optional(_timing, data["phases"]),
        "canary_verdict": data["canary_word"],
        "usage": data.get("load"),
        "warnings": data["advice"],
        "evidence": _optional(_evidence, data.get("evidence")),
        "bound": _optional(_bound, data.get("bound")),
        "engine": "torch",  # the only one there was
    }


def _timing(data: Json) -> Json:
    stored = {LATENCY: data["steady"], ISSUE: data.get("issue"), DEVICE: data.get("device")}
    return {
        **_only(data, "warmup", "warmup_end", "stop"),
        "cold_start": data["cold"],
        "series": [
            {"name": name, "unit": SECONDS, "role": name, "values": values}
            for name, values in stored.items()
            if values or name == LATENCY
        ],
        "watched": LATENCY,
    }


def _evidence(data: Json) -> Json:
    return _renamed(
        data,
        way="bf16_method",
        rows_by_implementation="by_implementation",
        rows_by_precision="by_precision",
        rows_by_operator="by_operator",
        uses="operators",
    )


def _bound(data: Json) -> Json:
    # "ceilings" was a path on the machine that measured; the ceilings themselves were not stored.
    return {name: value for name, value in _renamed(data, word="bound_by").items() if name != "ceilings"}


def _validity_entry(data: Json, keys: list[str]) -> Json:
    asked = _setting(data["asked"])
    return {
        **_only(data, "workload", "exit_code", "error"),
        "group": keys.index(_key({"workload": data["workload"], "setting": asked})),
        "asked": asked,
        "report": _optional(_validity_report, data.get("report")),
        "files": (data.get("report") or {}).get("validity", {}).get("files", []),
    }


def _validity_report(data: Json) -> Json:
    return {
        **_only(data, "validity", "weights"),
        "setting": _setting(data["setting"]),
        "tested": {"canary_verdict": data["canary_word"], "canary_summary": data["canary_summary"]},
        "engine": "torch",
    }

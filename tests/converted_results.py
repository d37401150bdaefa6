"""Results of earlier formats as results of this one: temporary, for fixtures and for ``equal_output.py --convert``.

``python tests/converted_results.py FILE...`` rewrites files in place, compressed ones too; ``--only STEP`` applies one
step, for fixtures that the others have already converted. ``python tests/converted_results.py FROM TO`` copies a
directory of ``generated_results.py`` and converts what it copies.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

from former_format import upgrade

Json = dict[str, Any]


def format_3(data: Json) -> Json:
    """The name of the format, without what only its first version had."""
    for run in data["runs"]:
        if run.get("report"):
            run["report"]["plan"].pop("half_width", None)
    return {**data, "format": "modelzoo-result/3"}


def objects(data: Any) -> Iterator[Json]:
    """All objects in ``data``, whatever they are."""
    if isinstance(data, dict):
        yield data
    if isinstance(data, (dict, list)):
        for value in data.values() if isinstance(data, dict) else data:
            yield from objects(value)


def machines(data: Any) -> Any:
    """The limit of the threads follows from its numbers; how the Arm Compute Library was found is a record."""
    for each in objects(data):
        if "physical_cores" in each and "affinity" in each:
            each.pop("reason", None)
        if "acl_evidence" in each:
            words = (each.pop("acl_evidence") or "").split(" ")
            found = {"file": None if "()" in words[0] else words[0], "is_loaded": words[-1] != "torch"}
            each["acl"] = found if each["acl"] else None
        if "policy_problem" in each:
            policy = each.pop("policy")
            each.update(preferred_node=int(policy.split(" ")[-1]) if policy else None)
    return data


def searches(data: Any) -> Any:
    """Why a candidate is out follows from its runs; what the grid does not contain has a field and an obstacle."""
    kinds = {"unproven precision": "unproven", "no effect here": "no convolution"}
    for each in objects(data):
        if "left_out" in each and "excluded" in each:
            for out in each["excluded"]:
                out.pop("reason", None)
                out["kind"] = kinds.get(out["kind"], out["kind"])
            each["left_out"] = [
                out
                if "field" in out
                else {"field": out["what"], "value": None, "obstacle": "unavailable", "problem": out["reason"]}
                for out in each["left_out"]
            ]
    return data


def fleets(data: Any) -> Any:
    """Sentences about hosts are facts: what the sentences said cannot be read from them."""
    for each in objects(data):
        if "unlike" in each and "problem" in each:
            each.pop("problem")
            each.update(spread=None, missing=[], unlike=[])
        for name in ("here", "others"):
            if set(each) == {"host", "name", "here", "others"} and isinstance(each[name], str):
                each[name] = [each[name]]
        if "judged_twice" in each and any(isinstance(word, str) for word in each["otherwise"]):
            each["otherwise"] = []
    return data


def proof_facts(data: Json) -> Json:
    """What proves the precision, without sentences."""
    for run in data["runs"]:
        _evidence((run.get("report") or {}).get("evidence"))
    for entry in data["validity"]:
        report = entry.get("report") or {}
        for side in (report.get("tested"), report.get("reference")):
            if side:
                _side(side)
    return data


def _evidence(found: Optional[Json]) -> None:
    """The reason as fields; a sentence of another form has none."""
    if not found or "line" not in found:
        return
    line = found.pop("line")
    found.pop("detail")
    found["reason"] = _other_precision(line) or _not_used(line)
    known = {"counted": None, "seen_arithmetic": None, "known_arithmetic": None, "known_time": 1.0, "lists_all": True}
    found["coverage"] = found.get("coverage") or known


def _other_precision(line: str) -> Optional[Json]:
    other = re.search(r"([a-z]+(?: and [a-z]+)*) ran in ([^:]+): ([^;)]+)", line)
    if other is None:
        return None
    parts = {"classes": other[1].split(" and "), "precisions": other[2].split(", "), "kernels": other[3].split(", ")}
    return {"type": "other precision", **parts}


def _not_used(line: str) -> Optional[Json]:
    allowed = re.search(r"\((.+) was allowed \S+, yet (.+?) computed in fp32", line)
    never = re.search(r"\((.+) was never allowed \S+, (.+?) ran", line)
    stayed = re.search(r"operands stayed in (\S+): (.+?)[;)]", line)
    if not (allowed or never or stayed):
        return None
    kernels = (allowed or never or stayed)[2].split(", ")
    library = "oneDNN" if stayed else (allowed or never)[1]
    precision = stayed[1] if stayed else "fp32"
    use = {"precision": precision, "kernels": kernels, "library": library}
    return {"type": "not used", **use, "allowed": None if stayed else bool(allowed)}


def _side(side: Json) -> None:
    """A canary, also where only its text was stored."""
    text = side.pop("canary_summary", "")
    if not side.get("canary") and text:
        checks = re.findall(r"(\w+) (\w+) \(([^)]+)\)", text)
        operators = [{"operator": name, "error": float(error), "level": level} for name, level, error in checks]
        side["canary"] = {"operators": operators}
    _evidence(side.get("evidence"))


STEPS: list[Callable[[Json], Json]] = [format_3, machines, searches, fleets, proof_facts]
"""From a stored result of format 2 to one of this version, in this order."""
OTHERS: dict[str, list[Callable[[Any], Any]]] = {"doctor": [machines], "fleet": [machines, fleets], "exhibits": []}
"""The same for the other records of ``generated_results.py``, by their directories."""


def converted(data: Any, path: Path, only: str = "") -> Any:
    """The content of a file as this version reads it."""
    if path.parent.name in OTHERS:
        steps = OTHERS[path.parent.name]
    elif isinstance(data, dict) and ("format" in data or "schema" in data):
        data, steps = (upgrade(data) if "schema" in data else data), STEPS
    else:
        return data
    for step in steps:
        if step.__name__ == only or not only:
            data = step(data)
    return data


def rewrite(path: Path, only: str = "") -> None:
    """Convert a file in place."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    data = converted(json.loads(text), path, only)
    new = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    path.write_bytes(gzip.compress(new, mtime=0) if path.suffix == ".gz" else new)


def main(words: list[str]) -> None:
    only = words.pop(words.index("--only") + 1) if "--only" in words else ""
    paths = [Path(word) for word in words if word != "--only"]
    if len(paths) == 2 and paths[0].is_dir():
        shutil.copytree(*paths, dirs_exist_ok=True)
        paths = sorted(path for path in paths[1].rglob("*.json") if path.is_file())
    for path in paths:
        rewrite(path, only)


if __name__ == "__main__":
    main(sys.argv[1:])

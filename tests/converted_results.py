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
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

from former_format import upgrade

from modelzoo.warning import WarningCode

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
            number = (policy or "").split(" ")[-1]
            each.update(preferred_node=int(number) if number.isdigit() else None)
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


def judgements(data: Json) -> Json:
    """Sentences and tables of a judgement become facts; tables of an unknown kind stay, as a task's own."""
    for entry in data["validity"]:
        if entry.get("report"):
            entry["report"]["validity"] = judgement(entry["report"]["validity"])
    return data


def judgement(old: Json) -> Json:
    new = {name: value for name, value in old.items() if name not in ("scope", "resolution", "reason", "classes")}
    scope, counts, tables = old["scope"], old.get("counts", {}), old.get("tables", [])
    passages = re.search(r"on (\d+) p", scope)
    item = next((name[:-1] for name in ("crops", "pictures", "questions") if name in counts), "item")
    items = counts.get(f"{item}s", 0)
    new.update(item=item, items=items, cluster="passage" if item == "question" else "picture")
    new["clusters"] = counts.get("passages", int(passages[1]) if passages else items)
    new["labelled"] = "agreement only" not in scope
    new["reason"] = reason(old)
    new["checks"] = [check(each) for each in old.get("checks", [])]
    new["changes"] = [{**each, "possible_loss": each.get("possible_loss") or 0.0} for each in old.get("changes", [])]
    if worst := old.get("classes"):
        tested = sum(each.get("p_value") is not None for each in worst)
        worst = [{"type": "class", **each} for each in worst]
        new["classes"] = {"worst": worst, "classes": len(worst), "tested": tested, "fewest": 5, "limit": 0.1}
        new["classes"]["significance"] = 0.01
    by_title = {each["title"]: each for each in tables}
    new["notes"], new["tables"] = [], []
    if "Over the set" in by_title:
        new["shown"] = shown(old["task"], {title: each["rows"] for title, each in by_title.items()})
        new["layers"] = layers(by_title["Error by layer"]["rows"]) if "Error by layer" in by_title else None
    else:
        new["tables"] = [own_table(each) for each in tables]
    return new


def reason(old: Json) -> Optional[Json]:
    if not old["reason"] or old["verdict"] == "VALID":
        return None
    kinds = {"NOT VALID": "failed checks", "INCONCLUSIVE": "undecided checks", "CANNOT JUDGE": "reference not finite"}
    numbers = "random weights" if "random" in old["reason"] else "built-in data"
    return {"kind": kinds.get(old["verdict"], numbers)}


def check(old: Json) -> Json:
    new = {name: value for name, value in old.items() if name not in ("title", "source")}
    if "less one" in old["source"]:
        new["required"] = 0.95 if "agreement" in old["name"] else 0.99
    explained = re.search(r"rounding explains an error of ([\d.e-]+)", old["source"])
    if layer := re.search(r"(?:seen|first) in (.+)$", old["source"]):
        value = float(explained[1]) if explained else None
        new["about"] = {"type": "layer", "name": layer[1], "explained": value}
    return {**new, "is_own": old["source"] == "--tolerance"}


def shown(task: str, tables: dict[str, list[list[str]]]) -> Json:
    def number(cell: str) -> Optional[float]:
        return None if cell == "–" else float(cell.split(" ")[0])

    if task == "answers":
        return {"type": "answers", "questions": [answer(index, row) for index, row in enumerate(tables["Answers"])]}
    if task == "detection":
        pictures = [
            {
                "name": row[0],
                "reference_boxes": int(row[1].split("(")[1][:-1]),
                "tested_boxes": int(row[2].split("(")[1][:-1]),
                **dict(zip(("common", "lost", "new", "moved"), map(int, row[3:7]))),
                "worst_iou": number(row[7]),
                "score_change": number(row[8]),
            }
            for row in tables["Objects"]
        ]
        fields = ("reference_score", "tested_score", "iou")
        changes = [
            {"picture": row[0], "label": row[2], **dict(zip(fields, map(number, row[3:])))}
            for row in tables.get("What changed", ())
        ]
        counts = next(row for row in tables["Over the set"] if row[0] == "objects")[2]
        changed = sum(int(count) for count in re.findall(r"(\d+) (?:lost|new|moved)", counts))
        return {"type": "objects", "pictures": pictures, "changes": changes, "changed": changed}
    names: dict[str, int] = {}

    def top(cell: str) -> Json:
        lines = [line.strip().split(" % ", 1) for line in cell.split("\n")]
        return {
            "classes": [names.setdefault(name, len(names)) for _, name in lines],
            "probabilities": [float(share) / 100 for share, _ in lines],
            "finite": True,
        }

    def flip(cell: str) -> Json:
        name, share = cell.rsplit(" (", 1)
        return top(f"{share.split(' ')[0]} % {name}")

    rest = {"label": None, "kl": 0.0, "probability_change": 0.0, "logit_error": 0.0}
    first = [
        {"index": i, "name": row[0], "reference": top(row[1]), "tested": top(row[2]), "margin": 0.0, "near_tie": False}
        for i, row in enumerate(tables["Five most likely classes"])
    ]
    changed_pictures = [
        {"index": i, "name": row[0], "reference": flip(row[2]), "tested": flip(row[3]), "margin": number(row[4])}
        for i, row in enumerate(tables.get("Flips", ()))
    ]
    for each, row in zip(changed_pictures, tables.get("Flips", ())):
        each["near_tie"] = "near tie" in row[4]
    both = [[{**each, **rest} for each in some] for some in (first, changed_pictures)]
    return {"type": "classes", "first": both[0], "changed": both[1], "indices": [*names.values()], "names": [*names]}


def answer(index: int, row: list[str]) -> Json:
    def scored(cell: str, f1: str) -> Json:
        text, share = cell.rsplit(" (", 1)
        text = "" if text == "(no answer)" else text
        found = {"text": text, "probability": float(share.split(" ")[0]) / 100, "exact": 0.0, "f1": float(f1) / 100}
        return {**found, "finite": True}

    margin = re.search(r"margin (-?[\d.]+)", row[5])
    f1 = row[4].split(" | ")
    return {
        "index": index,
        "id": str(index),
        "question": row[0],
        "expected": None if row[1] == "(none)" else row[1],
        "reference": scored(row[2], f1[0]),
        "tested": scored(row[3], f1[1]),
        "agreement_f1": 1.0,
        "margin": float(margin[1]) if margin else 0.0,
        "near_tie": "near tie" in row[5],
        "logit_change": None,
        "logit_error": None,
    }


def layers(rows: list[list[str]]) -> Json:
    def number(cell: str) -> Optional[float]:
        return None if cell in ("–", "nan") else float(cell.split(" ")[0])

    found = []
    for row in rows:
        scale = number(row[5])
        found.append(
            {
                **{"name": row[0].replace("→ ", ""), "kind": row[1], "error": number(row[2])},
                **{"scale": None if scale is None else scale / 100, "scale_error": 0.0},
                **{"baseline": number(row[3]), "baseline_scale": 0.0, "finite": row[2] != "nan"},
            }
        )
    suspects = [index for index, row in enumerate(rows) if row[0].startswith("→ ")]
    return {"layers": found, "suspect": suspects[0] if suspects else None}


def own_table(old: Json) -> Json:
    """A column is one of numbers if most of its cells begin with a digit."""
    columns = []
    for index, title in enumerate(old["columns"]):
        cells = ["".join(row[index : index + 1]) for row in old["rows"]]
        known = [cell.lstrip("≥≤<>+-−±≈ ")[:1] for cell in cells if cell not in ("", "–")]
        numbers = 2 * sum(first.isdigit() for first in known) > len(known)
        is_number = index > 0 and numbers and not any("\n" in cell for cell in cells)
        columns.append({"title": title, "cells": cells, "is_number": is_number})
    return {"title": old["title"], "columns": columns, "note": old.get("note", "")}


PREPARED = {"setting": "setting", "weights": "weights", "export": "export"}
PROVENANCE = {"machine": "machine", "engine": "engine", "versions": "versions", "digest": "digest"}
PROVENANCE |= {
    "libraries": "libraries",
    "machine_fingerprint": "fingerprint",
    "cpus": "cpus",
    "environment": "environment",
}
OBSERVED = {
    name: name
    for name in (
        *("canary", "canary_verdict", "kernels", "evidence", "evidence_problem", "counts", "flops", "flops_problem"),
        *("profile", "profile_problem", "agreement", "agreement_problem"),
    )
}
OBSERVED["canary_problem"] = "canary_problem"


def _moved(report: Json, key: str, names: dict[str, str]) -> None:
    """Move fields of a report into a record of their own."""
    report[key] = {new: report.pop(old) for old, new in names.items() if old in report}


ORDER = (
    *("workload", "title", "unit", "prepared", "provenance", "plan", "items", "inputs_digest", "import_seconds"),
    *("build_seconds", "compile_seconds", "switches", "timing", "turns", "pipeline", "usage", "accelerator"),
    *("observed", "peak_memory", "ceilings", "bound", "warnings"),
)
"""Of the fields of a run's report, as docs/results.md shows them."""


def nested_records(data: Json) -> Json:
    """What was prepared, where it came from and what was observed are records of their own."""
    for report in [run["report"] for run in data["runs"] if run.get("report")]:
        _moved(report, "prepared", PREPARED)
        _moved(report, "provenance", PROVENANCE)
        _moved(report, "observed", OBSERVED)
        for name in [name for name in ORDER if name in report]:
            report[name] = report.pop(name)
    for report in [entry["report"] for entry in data.get("validity", ()) if entry.get("report")]:
        _moved(report, "prepared", PREPARED)
        _moved(report, "provenance", PROVENANCE)
        if report["provenance"].get("machine") is None:
            report["provenance"] = None
        for side in (report["tested"], report.get("reference")):
            if side is not None:
                _moved(side, "observed", OBSERVED)
    return data


_MALLOC = "malloc returns freed blocks to the kernel, so large tensors cause page faults again and again ({})"
_EARLIER = {
    "PAGE_FAULTS": (_MALLOC.format("{faults:,.0f} page faults per second"), {"when": "per second"}),
    "OTHER_OUTPUTS": (
        "{engine} does not compute what torch does in eager mode and fp32: {_}",
        {"advice": "remove the export to export it again, and report it if it stays so"},
    ),
}
"""Messages that have changed, and values that are not in them."""


def _filled_in(template: str, text: str) -> dict[str, Any] | None:
    """The values that make ``text`` of ``template``; ``None`` if it is not made of it."""
    pattern, numbers = "", set()
    for literal, name, spec, _ in string.Formatter().parse(template):
        pattern += re.escape(literal)
        if name:
            pattern += f"(?P={name})" if f"(?P<{name}>" in pattern else f"(?P<{name}>.+?)"
            numbers |= {name} if spec else set()
    found = re.fullmatch(pattern, text, re.DOTALL)
    if found is None:
        return None
    values: dict[str, Any] = {}
    for name, value in found.groupdict().items():
        plain = value.replace(",", "")
        is_number = name in numbers or plain.isdigit()
        values[name] = (int if plain.isdigit() else float)(plain) if is_number else value
    return values


def warnings(data: Any) -> Any:
    """Their values, as far as the message says them; the errors of outputs are not part of the message."""
    for each in objects(data):
        if isinstance(each.get("warnings"), list):  # it said nothing of importance, and is not given any more
            each["warnings"] = [one for one in each["warnings"] if one.get("code") != "TIME_LIMIT"]
        if not {"code", "message", "hint"} <= each.keys() or each.get("values"):
            continue
        each["values"] = {}
        code = WarningCode.__members__.get(each["code"])
        if code is None:
            continue
        template, known = _EARLIER.get(code.name, (code.value[1], {}))
        values, of_hint = _filled_in(template, each["message"]), _filled_in(code.value[2], each["hint"])
        if values is None:
            continue
        values = {**known, **(of_hint or {}), **values}
        values.pop("_", None)
        try:
            message = code.value[1].format(**values)
            code.value[2].format(**values)
        except (KeyError, ValueError):
            continue
        each.update(message=message, values=values)
    return data


def random_weights(data: Json) -> Json:
    """Weights have a problem if they are random because of one, and no other reason."""
    for each in objects(data):
        if "sha256" in each and "reason" in each:
            reason = each.pop("reason")
            is_error = each["kind"] == "random" and reason != "asked for by --weights random"
            each["problem"] = reason if is_error else None
    return data


def serving(data: Json) -> Json:
    """Sentences about instances and about runs under load are facts."""
    for run in (data.get("load") or {}).get("runs", ()):
        run["reasons"] = [_reason(each) for each in run["reasons"]]
    for check in [(data.get("load") or {}).get("loadgen")]:
        if check:
            check["run"]["reasons"] = [_reason(each) for each in check["run"]["reasons"]]
    for session in (data.get("load") or {}).get("sessions", ()):
        session["generator"].pop("problem", None)
        session["reports"] = [_served(each) for each in session["reports"]]
    found = data.get("throughput") or {}
    names = [_configuration_name(each) for each in found.get("configurations", ())]
    for each in found.get("dropped", ()):
        each["reason"] = _dropped(each["reason"], names)
        each.pop("is_slower", None)
    return data


def _reason(old: Json) -> Json:
    text = old["text"]

    def number(pattern: str) -> Optional[int]:
        match = re.search(pattern, text)
        return int(match[1].replace(",", "")) if match else None

    dependence = re.search(r"queue, so (\S+) of them", text)
    is_bound = "rejected: the queue" not in text
    return {
        "flaw": old["flaw"],
        "instance": number(r"^instance (\d+) died"),
        "over": number(r"([\d,]+) of (?:the first )?[\d,]+ requests took") if is_bound else None,
        "allowed": number(r"confidence, ([\d,]+) may"),
        "dependence": float(dependence[1]) if dependence else None,
        "needed": number(r"(?:it takes|about) ([\d,]+)"),
    }


def _served(report: Json) -> Json:
    """What an instance reported."""
    _moved(report, "observed", OBSERVED)
    if report.get("context"):
        for key, names in (("prepared", PREPARED), ("provenance", PROVENANCE), ("observed", OBSERVED)):
            _moved(report["context"], key, names)
    for each in (report, report.get("context")):
        _evidence(each["observed"].get("evidence") if each else None)
    return report


def _configuration_name(found: Json) -> str:
    smt = " with SMT" if found["smt"] == "on" else ""
    plural = "s" if found["cores"] != 1 else ""
    return f"{found['instances']} × {found['cores']} core{plural}{smt}, batch {found['batch']}"


def _dropped(text: str, names: list[str]) -> Json:
    if slower := re.match(r"slower: (\S+)× the throughput of (.+)$", text):
        return {"type": "slower", "share": float(slower[1]), "than": names.index(slower[2])}
    if large := re.match(r"it would need (\S+) GB of memory, and (\S+) GB", text):
        return {"type": "too large", "needed": int(1e9 * float(large[1])), "available": int(1e9 * float(large[2]))}
    if over := re.match(r"p\S+ is (\S+) ms, over the bound", text):
        return {"type": "over bound", "latency": float(over[1]) / 1e3}
    if text.startswith("too many batches took longer"):
        return {"type": "over bound", "latency": None}
    return {"type": "cannot run", "problem": text}


def payload(data: Json) -> Json:
    """What only one kind of call measures is one field, with its kind."""
    latency = {name: data.pop(name) for name in ("designs", *_REFERENCE) if name in data}
    kinds = {kind: data.pop(kind, None) for kind in ("tuning", "throughput", "load")}
    found = [{"type": kind, **each} for kind, each in kinds.items() if each]
    before = {name: value for name, value in data.items() if name not in _BEHIND}
    behind = {name: value for name, value in data.items() if name in _BEHIND}
    return {**before, "payload": (found or [{"type": "latency", **latency}])[0], **behind}


_REFERENCE = ("reference_seconds", "reference_load", "load_evidence")
_BEHIND = ("session", "sharding", "version", "commit", "format")


def names(data: Json) -> Json:
    """The same facts by the field's words."""
    for each in (data, *data["runs"], *data["validity"]):
        if "asked" in each:
            renamed = {"requested" if name == "asked" else name: value for name, value in each.items()}
            each.clear()
            each.update(renamed)
    for design in data["payload"].get("designs", ()):
        if "ending" in design:
            design["stop_reason"] = design.pop("ending")
    return data


STEPS: list[Callable[[Json], Json]] = [
    *(format_3, machines, searches, fleets, proof_facts, judgements, nested_records, warnings, random_weights),
    serving,
    payload,
    names,
]
"""From a stored result of format 2 to one of this version, in this order."""
OTHERS: dict[str, list[Callable[[Any], Any]]] = {
    "doctor": [machines, warnings],
    "fleet": [machines, fleets],
    "exhibits": [],
}
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

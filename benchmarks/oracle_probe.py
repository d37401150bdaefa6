"""What this tree says about fixed inputs, or about a result that it measured.

    .venv/bin/python benchmarks/oracle_probe.py DIRECTORY
    .venv/bin/python benchmarks/oracle_probe.py RESULT.json

oracle.py runs it in two trees and compares the answers. DIRECTORY gets ``facts.json`` (the proof of every recording,
and the CPU of every recorded machine) and ``results/``, a result of every command that measures, for ``modelzoo
report`` and ``modelzoo compare``. Of a RESULT, it prints what was proven and judged, a line each, without what
differs from one process to the next. Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]


def proofs() -> dict[str, Any]:
    """The evidence of each recorded pass, with what tells one proof from another."""
    import onednn_recordings as recordings

    from modelzoo.evidence.attribution import attribute_recording
    from modelzoo.evidence.verdict import judge_attributed
    from modelzoo.records.codec import encode

    found = {}
    for path in recordings.TABLES:
        each = recordings.load_table(path)
        attributed = attribute_recording(each.recording, each.canary, each.bf16_method)
        found[path.stem] = encode(judge_attributed(attributed, each.canary, each.requested, each.bf16_method))
    return found


def machines() -> dict[str, Any]:
    """The CPU of each recorded /proc/cpuinfo and lscpu."""
    from modelzoo.machine.cpu import identify_cpu
    from modelzoo.records.codec import encode

    found = {}
    for path in sorted((ROOT / "tests/data/machine").iterdir()):
        text = path.read_text()
        architecture = "aarch64" if "CPU implementer" in text or "aarch64" in text else "x86_64"
        if path.suffix == ".cpuinfo":
            found[path.name] = encode(identify_cpu(architecture, text))
        elif ".lscpu" in path.name:
            found[path.name] = encode(identify_cpu(architecture, "", text))
    return found


def write_results(directory: Path) -> None:
    """A result of every kind, and the sessions of two sides."""
    import shown_documents
    from example_results import EXAMPLES

    from modelzoo.results import store

    made = {**EXAMPLES, "releases": shown_documents.releases(), "generated": shown_documents.generated()}
    for name, result in made.items():
        store.write(result, directory / f"{name}.json")
    for side in shown_documents.sides():
        for number, stored in enumerate(side.results, 1):
            store.write(stored.result, directory / side.name / f"{number}.json")


def live(path: Path) -> list[str]:
    """What was proven in each setting's first process, and what each judgement found."""
    from modelzoo.records.codec import encode
    from modelzoo.results import store

    result, lines = store.read(path), []
    for run in result.runs:
        evidence = run.report.observed.evidence if run.report else None
        name = f"{run.workload} {run.requested.precision}"
        if evidence is None:
            lines.append(f"{name}: {run.error or 'no evidence'}")
            continue
        lines.append(f"{name}: {evidence.verdict.value}")
        for each in evidence.products:
            where = each.layers[0] if each.layers else "-"
            lines.append(
                f"{name}: {each.operator} {each.shapes} ×{each.count} in {where}: {each.precision} by "
                f"{each.known_by.value}, shown {each.shown}, kernels {each.kernels}"
            )
    for entry in result.validity:
        judged = encode(entry.report.validity) if entry.report else entry.error
        lines += json.dumps(rounded(judged), indent=1, sort_keys=True).splitlines()
    return lines


def rounded(value: Any) -> Any:
    """JSON data with 4 significant digits of each number."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items() if not key.endswith(("seconds", "started", "ended"))}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def main() -> None:
    """Write or print what this tree says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("where", type=Path, metavar="DIRECTORY|RESULT.json")
    directory = parser.parse_args().where
    if directory.is_file():
        print("\n".join(live(directory)))
        return
    (directory / "results").mkdir(parents=True, exist_ok=True)
    facts = {"proofs": proofs(), "machines": machines()}
    (directory / "facts.json").write_text(json.dumps(facts, indent=1, sort_keys=True))
    write_results(directory / "results")


if __name__ == "__main__":
    main()

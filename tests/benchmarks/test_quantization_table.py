"""benchmarks/quantization.py: what it asks for, and its table of stored results."""

from __future__ import annotations

from pathlib import Path

import pytest
import quantization
from fake_runs import evidence, make, result_of

from modelzoo.cli.app import make_parser
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.results import store
from modelzoo.setting import Setting


def test_every_command_can_be_parsed(tmp_path: Path) -> None:
    """With different settings, the first of them in fp32."""
    args = quantization.arguments(["--processes", "1", "--data", "bert=/dev.json", "--weights", "bert=/tuned"])
    for workload, settings in quantization.SETTINGS.items():
        given = quantization.command(args, workload, tmp_path / "x.json")
        make_parser().parse_args(given[3:])
        is_bert = workload == "bert"
        assert given[given.index("--weights") + 1] == ("/tuned" if is_bert else "random")
        assert ("--data" in given) is is_bert
        assert given.count("--setting") == len(set(settings))
        assert "precision=fp32" in settings[0]


def test_the_table_shows_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Speedup, proof with its share, size, and that accuracy was not judged; a setting that failed is an error."""
    proven = replace(evidence(ProofVerdict.ACTIVE), requested="int8", arithmetic_share=0.997)
    int8 = Setting("int8", recipe="static", mode="compile")
    runs = [make([0.1] * 5, round=i, evidence=evidence(ProofVerdict.FP32), weight_bytes=98 << 20) for i in range(3)]
    fast = [make([0.05] * 5, round=i, setting=int8, group=1, evidence=proven, weight_bytes=25 << 20) for i in range(3)]
    kept = tmp_path / "kept.json"
    store.write(result_of(*runs, *fast), kept)
    assert quantization.main(["--replay", str(kept)]) == 0
    header, _, first, second = capsys.readouterr().out.splitlines()[:4]
    assert [cell.strip() for cell in header.split("|")[1:-1]][2:5] == ["latency", "speedup \\[95 % CI]", "verdict"]
    assert [cell.strip() for cell in first.split("|")[-4:-1]] == ["fp32", "98.0 MiB", "not judged"]
    assert [cell.strip() for cell in second.split("|")[-4:-1]] == [
        "int8, 99 % of the arithmetic",
        "25.0 MiB",
        "not judged",
    ]
    store.write(result_of(*runs, make(None, setting=int8, group=1, error="died")), kept)
    assert quantization.main(["--replay", str(kept)]) == 1

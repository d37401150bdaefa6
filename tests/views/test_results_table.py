"""The table: what it shows of a row, which columns it has, and that it fits."""

from __future__ import annotations

import itertools

from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import evidence, judgement, make, shown
from printed import cells, printed

from modelzoo.document import Table, Tone
from modelzoo.document.terminal import fitting
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views import results_table

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert")


def processes(workload: str, setting: Setting, seconds: float = 0.1, count: int = 2) -> list[Run]:
    """Proven processes whose medians differ a little."""
    proof = evidence(ProofVerdict.ACTIVE if setting.precision == "bf16" else ProofVerdict.FP32)
    return [
        make([seconds * (1 + 0.01 * number)] * 6, workload=workload, setting=setting, round=number, evidence=proof)
        for number in range(count)
    ]


def default_call() -> list[SummaryRow]:
    """Four workloads in two precisions, 8 processes each."""
    both = (Setting(batch=1), 3.123, 8), (Setting("bf16", batch=1), 6.246, 8)
    return shown(*(run for name in WORKLOADS for each in both for run in processes(name, *each)))


def titles(found: Table, width: int = 1000) -> list[str]:
    """The titles of the columns that are shown in this width."""
    return [column.title for column in fitting(found.columns, width)]


def widest(found: Table) -> int:
    """The length of its longest line on a wide terminal."""
    return max(map(len, printed([replace(found, caption="", note="")], width=160).partition("\n\n")[0].splitlines()))


def test_the_tail_of_both_settings_stands_beside_the_typical_latency() -> None:
    """That of all samples; ``tests/snapshots`` has tables with too few for a 99th percentile."""
    samples = [0.001] * 96 + [0.0024] * 4
    runs = [make(samples, setting=Setting(name), round=number) for name in ("fp32", "bf16") for number in range(3)]
    assert cells(results_table.table(shown(*runs)))["p99 fp32, bf16"] == ("2.40, 2.40 ms",)


def test_what_differs_between_models_only_has_a_column() -> None:
    """Each model at its own batch size; of the two settings that a model never began, the second is missing."""
    settings = (("a", "fp32", 1), ("a", "bf16", 1), ("b", "fp32", 4), ("b", "bf16", 4))
    runs = [run for name, precision, batch in settings for run in processes(name, Setting(precision, batch=batch))]
    found = cells(results_table.table(shown(*runs, make(None, workload="c", setting=Setting(batch=4), error="died"))))
    assert list(found)[:4] == ["model", "batch", "fp32", "bf16"]
    assert found["batch"] == ("1", "4", "4")
    assert (found["fp32"][2], found["bf16"][2], found["verdict"][2]) == ("failed", "–", "–")


def test_settings_that_differ_from_model_to_model_have_a_row_each() -> None:
    """Side by side they would stand under the wrong name."""
    pairs = (("a", Setting()), ("a", Setting("bf16")), ("b", Setting()), ("b", Setting(mode="compile")))
    found = cells(results_table.table(shown(*(run for pair in pairs for run in processes(*pair)))))
    assert list(found)[:3] == ["workload", "precision", "mode"]
    assert found["workload"] == ("a", "", "b", "")


def test_a_table_with_everything_drops_what_is_said_elsewhere() -> None:
    """In a page with checks of accuracy and unverified rows: first the throughput, then those."""
    judged = judgement(ValidityVerdict.NUMERIC_ONLY)
    rows = [replace(each, judged=judged, proof=replace(each.proof, verdict=None)) for each in default_call()]
    found = results_table.page_table(rows)
    assert titles(found)[-4:] == ["latency", "rows/s", "ran in", "accuracy"]
    assert "accuracy" not in titles(found, 90)
    assert widest(found) <= 100, "also on a wider terminal"
    assert cells(results_table.table(rows))["accuracy"] == ("NUMERIC ONLY",) * 4


def test_twenty_rows_have_a_column_for_each_field_that_differs() -> None:
    """Mode, memory format and allocator; the table still fits."""
    product = itertools.product(("eager", "compile", "script"), (False, True), ("glibc", "tcmalloc", "jemalloc"))
    settings = [Setting(mode=mode, channels_last=last, malloc=malloc) for mode, last, malloc in product]
    settings += [Setting(mode="eager", malloc="glibc", thp=value) for value in ("off", "on")]
    found = results_table.table(shown(*(run for each in settings for run in processes("toy", each, 0.0512, 3))))
    assert titles(found, 100)[:4] == ["mode", "channels-last", "malloc", "thp"]
    assert (len(found.rows), widest(found) <= 100) == (20, True)


def test_different_batch_sizes_are_compared_by_items_per_second() -> None:
    """The column of speedups says so, and the throughput is never left out; units that differ are items."""
    found = results_table.table(shown(*processes("toy", Setting(batch=1)), *processes("toy", Setting(batch=8), 0.4)))
    assert titles(found) == ["batch", "latency", "rows/s", "speedup per item", "verdict"]
    assert "rows/s" in titles(found, 10)
    rows = shown(make([0.1] * 4), make([0.1] * 4, workload="other", unit="questions"))
    assert "items/s" in titles(results_table.table(rows))


def test_the_table_says_what_was_proven() -> None:
    """The audit's verdict; without an audit it is the canary's, and says so."""
    verdicts = {"tf32": ProofVerdict.PARTLY, "fp32": ProofVerdict.NOT_FP32, "bf16": ProofVerdict.UNKNOWN}
    rows = shown(*(make([0.1] * 4, setting=Setting(precision)) for precision in verdicts))
    proven = zip(rows, verdicts.values())
    said = [results_table.ran_in(replace(row, proof=replace(row.proof, verdict=each))) for row, each in proven]
    assert said == ["partly tf32", "NOT fp32", "unknown"]
    assert results_table.ran_in(rows[1]) == "canary: fp32"


def test_errors_of_outputs_have_a_column_if_an_engine_has_some() -> None:
    """One over the bound stands out, and is not comparable; in bf16 neither torch nor an engine shows any."""
    engines = (("fp32", "onnxruntime", SAME), ("fp32", "openvino", OTHER), ("bf16", "openvino", IN_BF16))
    proof = {"evidence": evidence(ProofVerdict.FP32)}
    others = [
        make([1.0] * 6, setting=Setting(precision, engine=engine), **{**proof, **exported(agreement)})
        for precision, engine, agreement in engines
    ]
    table = results_table.table(shown(make([1.0] * 6, **proof), *others))
    found = {column.title: column for column in table.columns}
    assert found["output error"].cells == ("–", "2.0e-07", "2.0e-03", "–")
    assert found["output error"].tones == (Tone.PLAIN, Tone.PLAIN, Tone.BAD, Tone.PLAIN)
    assert [each == "NOT COMPARABLE" for each in found["verdict"].cells[1:3]] == [False, True]
    assert "output error" not in titles(results_table.table(shown(make([1.0] * 6, **proof))))

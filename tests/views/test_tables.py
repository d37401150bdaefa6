"""The table: what it shows of a row, which columns it has, and that it fits."""

from __future__ import annotations

import itertools
from collections.abc import Callable

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
from modelzoo.views import tables

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


def test_columns_follow_what_differs(approved: Callable[[str, str], None]) -> None:
    """The tail, what differs between models only, a row each where pairs differ, batch sizes, units, output errors."""
    samples = [0.001] * 96 + [0.0024] * 4
    tail = [make(samples, setting=Setting(name), round=number) for name in ("fp32", "bf16") for number in range(3)]
    batches = (("a", "fp32", 1), ("a", "bf16", 1), ("b", "fp32", 4), ("b", "bf16", 4))
    models = [run for name, precision, batch in batches for run in processes(name, Setting(precision, batch=batch))]
    models.append(make(None, workload="c", setting=Setting(batch=4), error="died"))
    pairs = (("a", Setting()), ("a", Setting("bf16")), ("b", Setting()), ("b", Setting(mode="compile")))
    unlike = [run for pair in pairs for run in processes(*pair)]
    sizes = [*processes("toy", Setting(batch=1)), *processes("toy", Setting(batch=8), 0.4)]
    units = [make([0.1] * 4), make([0.1] * 4, workload="other", unit="questions")]
    proof = {"evidence": evidence(ProofVerdict.FP32)}
    engines = [("onnxruntime", "fp32", SAME), ("openvino", "fp32", OTHER), ("openvino", "bf16", IN_BF16)]
    outputs = [make([1.0] * 6, **proof)]
    for engine, precision, agreement in engines:
        setting = Setting(precision, engine=engine)
        outputs.append(make([1.0] * 6, setting=setting, **{**proof, **exported(agreement)}))
    found = [tables.table(shown(*runs)) for runs in (tail, models, unlike, sizes, units, outputs)]
    approved("said/tables.txt", printed([replace(each, is_brief=False) for each in found], width=200))
    assert "rows/s" in titles(found[3], 10), "never left out"
    assert Tone.BAD in next(each.tones for each in found[5].columns if each.title == "output error")


def test_a_table_with_everything_drops_what_is_said_elsewhere() -> None:
    """In a page with checks of accuracy and unverified rows: first the throughput, then those."""
    judged = judgement(ValidityVerdict.NUMERIC_ONLY)
    rows = [replace(each, judged=judged, proof=replace(each.proof, verdict=None)) for each in default_call()]
    found = tables.page_table(rows)
    assert titles(found)[-4:] == ["latency", "rows/s", "ran in", "accuracy"]
    assert "accuracy" not in titles(found, 90)
    assert widest(found) <= 100, "also on a wider terminal"
    assert cells(tables.table(rows))["accuracy"] == ("NUMERIC ONLY",) * 4


def test_twenty_rows_have_a_column_for_each_field_that_differs() -> None:
    """Mode, memory format and allocator; the table still fits."""
    product = itertools.product(("eager", "compile", "script"), (False, True), ("glibc", "tcmalloc", "jemalloc"))
    settings = [Setting(mode=mode, channels_last=last, malloc=malloc) for mode, last, malloc in product]
    settings += [Setting(mode="eager", malloc="glibc", thp=value) for value in ("off", "on")]
    found = tables.table(shown(*(run for each in settings for run in processes("toy", each, 0.0512, 3))))
    assert titles(found, 100)[:4] == ["mode", "channels-last", "malloc", "thp"]
    assert (len(found.rows), widest(found) <= 100) == (20, True)


def test_the_table_says_what_was_proven() -> None:
    """The audit's verdict; without an audit it is the canary's, and says so."""
    verdicts = {"tf32": ProofVerdict.PARTLY, "fp32": ProofVerdict.NOT_FP32, "bf16": ProofVerdict.UNKNOWN}
    rows = shown(*(make([0.1] * 4, setting=Setting(precision)) for precision in verdicts))
    proven = zip(rows, verdicts.values())
    said = [tables.ran_in(replace(row, proof=replace(row.proof, verdict=each))) for row, each in proven]
    assert said == ["partly tf32", "NOT fp32", "unknown"]
    assert tables.ran_in(rows[1]) == "canary: fp32"

"""The table: what it shows of a row, which columns it has, and that it fits."""

from __future__ import annotations

import itertools

import pytest
from exported_results import IN_BF16, OTHER, SAME, exported
from fake_runs import evidence, judgement, make, result_of
from printed import cells, printed

from modelzoo.document import Table, Tone
from modelzoo.document.terminal import fitting
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.validity import ValidityVerdict
from modelzoo.results import summary
from modelzoo.results.summary import SummaryRow
from modelzoo.setting import Setting
from modelzoo.views import results_table

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert")


def process(workload: str, setting: Setting, group: int, number: int, seconds: float) -> Run:
    """A proven process whose median differs a little from that of the next one."""
    proof = evidence(ProofVerdict.ACTIVE if setting.precision == "bf16" else ProofVerdict.FP32)
    samples = [seconds * (1 + 0.01 * number)] * 6
    return make(samples, workload=workload, setting=setting, group=group, round=number, evidence=proof)


def shown(*runs: Run) -> list[SummaryRow]:
    """The rows of these runs."""
    return summary.rows(result_of(*runs))


def default_call() -> list[SummaryRow]:
    """Four workloads in two precisions, 8 processes each."""
    settings = (Setting(batch=1), Setting("bf16", batch=1))
    return shown(
        *(
            process(workload, setting, 2 * place + group, number, 3.123 * (1 + group))
            for place, workload in enumerate(WORKLOADS)
            for group, setting in enumerate(settings)
            for number in range(8)
        )
    )


def titles(found: Table, width: int = 1000) -> list[str]:
    """The titles of the columns that are shown in this width."""
    return [column.title for column in fitting(found.columns, width)]


def lines(found: Table) -> list[str]:
    """The table as printed without a terminal, with nothing above and below it."""
    return printed([replace(found, caption="")], width=160).partition("\n\n")[0].splitlines()


def test_the_default_call_has_one_row_per_model() -> None:
    """Its two settings stand side by side; what all rows share has no column."""
    found = results_table.table(default_call())
    assert titles(found, 100) == ["model", "fp32", "bf16", "speedup [95 % CI]", "verdict"]
    assert found.columns[0].cells == WORKLOADS
    assert len(lines(found)) == 2 + 4


def test_the_tail_stands_beside_the_typical_latency_if_it_is_known() -> None:
    """Of all samples of both settings; too few have no 99th percentile."""
    runs = [
        make([0.001] * 96 + [0.0024] * 4, setting=Setting(name), group=group, round=number)
        for group, name in enumerate(("fp32", "bf16"))
        for number in range(3)
    ]
    found = cells(results_table.table(shown(*runs)))
    assert found["p99 fp32, bf16"] == ("2.40, 2.40 ms",)
    assert "p99 fp32, bf16" not in cells(results_table.table(default_call()))


def test_what_differs_between_models_only_has_a_column() -> None:
    """Each model at its own batch size; of the two settings that a model never began, the second is missing."""
    runs = [
        process(name, Setting(precision, batch=batch), 0, number, 0.1)
        for name, batch in (("a", 1), ("b", 4))
        for precision in ("fp32", "bf16")
        for number in range(2)
    ]
    found = cells(results_table.table(shown(*runs, make(None, workload="c", setting=Setting(batch=4), error="died"))))
    assert list(found)[:4] == ["model", "batch", "fp32", "bf16"]
    assert found["batch"] == ("1", "4", "4")
    assert (found["fp32"][2], found["bf16"][2], found["verdict"][2]) == ("failed", "–", "–")


def test_settings_that_differ_from_model_to_model_have_a_row_each() -> None:
    """Side by side they would stand under the wrong name."""
    pairs = (("a", Setting()), ("a", Setting("bf16")), ("b", Setting()), ("b", Setting(mode="compile")))
    rows = shown(*(process(name, setting, 0, number, 0.1) for name, setting in pairs for number in range(2)))
    found = cells(results_table.table(rows))
    assert list(found)[:3] == ["workload", "precision", "mode"]
    assert found["workload"] == ("a", "", "b", "")


def test_a_table_with_everything_drops_what_is_said_elsewhere() -> None:
    """In a page with checks of accuracy and unverified rows: first the throughput, then those."""
    judged = judgement(ValidityVerdict.NUMERIC_ONLY)
    rows = [replace(each, judged=judged, proof=replace(each.proof, verdict=None)) for each in default_call()]
    found = results_table.page_table(rows)
    latency = titles(found).index("latency")
    assert titles(found)[latency:] == ["latency", "rows/s", "ran in", "accuracy"]
    assert "accuracy" not in titles(found, 90)
    assert max(map(len, lines(found))) <= 100, "also on a wider terminal"
    pairs = cells(results_table.table(rows))
    assert pairs["accuracy"] == ("NUMERIC ONLY",) * 4


def test_twenty_rows_have_a_column_for_each_field_that_differs() -> None:
    """Mode, memory format and allocator; the table still fits."""
    product = itertools.product(("eager", "compile", "script"), (False, True), ("glibc", "tcmalloc", "jemalloc"))
    settings = [Setting(mode=mode, channels_last=last, malloc=malloc) for mode, last, malloc in product]
    settings += [Setting(mode="eager", malloc="glibc", thp=value) for value in ("off", "on")]
    rows = shown(*(process("toy", each, group, i, 0.0512) for group, each in enumerate(settings) for i in range(3)))
    found = results_table.table(rows)
    assert titles(found, 100)[:4] == ["mode", "channels-last", "malloc", "thp"]
    assert len(lines(found)) == 2 + 20
    assert max(map(len, lines(found))) <= 100


def test_different_batch_sizes_are_compared_by_items_per_second() -> None:
    """The column of speedups says so, and the throughput is never left out."""
    rows = shown(process("toy", Setting(batch=1), 0, 0, 0.1), process("toy", Setting(batch=8), 1, 0, 0.4))
    found = results_table.table(rows)
    assert titles(found) == ["batch", "latency", "rows/s", "speedup per item", "verdict"]
    assert "rows/s" in titles(found, 10)


def test_units_that_differ_are_items() -> None:
    """Images and questions stand in one column."""
    rows = shown(make([0.1] * 4), make([0.1] * 4, workload="other", group=1, unit="questions"))
    assert "items/s" in titles(results_table.table(rows))


def test_several_verdicts_are_said_to_be_corrected() -> None:
    """The intervals of the speedups are not, so that is said as well."""
    said = results_table.table(default_call()).note
    assert str(said) == "The verdicts are corrected for 4 comparisons, the intervals of the speedups are not."
    one = shown(
        *(process("toy", Setting(name), group, i, 0.1) for group, name in enumerate(("fp32", "bf16")) for i in (0, 1))
    )
    assert results_table.table(one).note == ""


@pytest.mark.parametrize(
    ("precision", "verdict", "words"),
    [
        ("bf16", ProofVerdict.ACTIVE, "bf16"),
        ("bf16", ProofVerdict.NOT_ACTIVE, "NOT bf16"),
        ("tf32", ProofVerdict.PARTLY, "partly tf32"),
        ("fp32", ProofVerdict.NOT_FP32, "NOT fp32"),
        ("bf16", ProofVerdict.UNKNOWN, "unknown"),
        ("fp32", None, "canary: fp32"),
    ],
)
def test_the_table_says_what_was_proven(precision: str, verdict: ProofVerdict | None, words: str) -> None:
    """The audit's verdict; without an audit it is the canary's, and says so."""
    (row,) = summary.rows(result_of(make([0.1] * 4, setting=Setting(precision))))
    proof = replace(row.proof, verdict=verdict, canaries=(CanaryVerdict.FP32,))
    assert results_table.ran_in(replace(row, proof=proof)) == words


def test_what_was_not_timed_is_said() -> None:
    """A failure, and a machine on which nothing is timed."""
    rows = shown(make(None, error="died"), make(None, workload="other", group=1))
    assert cells(results_table.table(rows))["latency"] == ("failed", "not timed")


def test_markup_is_harmless() -> None:
    """Brackets in the name of a workload or an option are text."""
    rows = shown(make([0.1] * 4, workload="[bold]a[/]"), make([0.1] * 4, workload="b", group=1))
    assert any(line.startswith("[bold]a[/]") for line in lines(results_table.table(rows)))


def test_errors_of_outputs_have_a_column_if_an_engine_has_some() -> None:
    """One over the bound stands out, and is not comparable; in bf16 neither torch nor an engine shows any."""
    run = {"evidence": evidence(ProofVerdict.FP32)}
    plain = make([1.0] * 6, setting=Setting(), **run)
    same, other, bf16 = (
        make([1.0] * 6, group=group, setting=Setting(precision, engine=engine), **{**run, **exported(agreement)})
        for group, precision, engine, agreement in (
            (1, "fp32", "onnxruntime", SAME),
            (2, "fp32", "openvino", OTHER),
            (3, "bf16", "openvino", IN_BF16),
        )
    )
    table = results_table.table(shown(plain, same, other, bf16))
    found = {column.title: column for column in table.columns}
    assert found["output error"].cells == ("–", "2.0e-07", "2.0e-03", "–")
    assert found["output error"].tones == (Tone.PLAIN, Tone.PLAIN, Tone.BAD, Tone.PLAIN)
    assert found["verdict"].cells[2] == "NOT COMPARABLE"
    assert found["verdict"].cells[1] != "NOT COMPARABLE"
    assert "output error: mean error ÷ mean |output|" in str(table.meanings)
    assert "output error" not in titles(results_table.table(shown(plain)))

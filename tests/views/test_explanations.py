"""What is said of the operations that explain a difference."""

from __future__ import annotations

import pytest
from fake_runs import make, shown
from printed import printed
from shown_documents import of_release, releases

from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views import explanations, run
from modelzoo.views.explanations import NAMED_ROWS, passes_text, sentence


def explained(base: float, other: float, *, timed: tuple[float, float] = (1.0, 0.8)) -> str:
    """What is said of two audited passes and one that took ``base`` and ``other`` seconds each."""
    found = Explanation("bert", "fp32", "audited", (Part("aten::mm", base, other),), 2, 1, *timed)
    return passes_text(found, ("xeon", "arm"))


def test_passes_are_set_beside_the_timed_ones() -> None:
    """How much slower they are on each side, and their share of the timed difference."""
    said = explained(1.25, 1.0)
    assert "xeon: 2 audited passes of 1.250 s, 25 % more than the timed ones (1.000 s as measured)" in said
    assert "arm: 1 audited pass of 1.000 s, 25 % more than the timed ones (800.0 ms as measured)" in said
    assert "They differ by −250.0 ms, 125 % of the timed difference (−200.0 ms)." in said


@pytest.mark.parametrize(("base", "other"), [(1.0, 1.1), (1.0, 1.0)])
def test_passes_may_not_explain_the_difference(base: float, other: float) -> None:
    """If they differ the other way round, or not at all."""
    assert "so they do not explain the timed difference" in explained(base, other)
    found = Explanation("bert", "fp32", "audited", (Part("aten::mm", base, other),), 2, 1, 1.0, 0.8)
    assert sentence(found).endswith("timed −200.0 ms: they do not explain the difference")


def test_without_a_timed_difference_there_is_no_share() -> None:
    """Nothing is divided by zero."""
    assert "the timed ones by +0" in explained(1.0, 0.9, timed=(1.0, 1.0))


def test_without_a_significant_difference_nothing_is_explained() -> None:
    """A share of what may be chance says nothing; one of 10,000 % was shown."""
    found = Explanation("bert", "fp32", "audited", (Part("aten::mm", 1.0, 0.9),), 2, 1, 1.0, 0.999)
    assert "of the timed difference" not in passes_text(found, ("xeon", "arm"), is_decided=False)


def test_operations_add_up() -> None:
    """The last row is the sum; kernels are named on both sides if they differ."""
    parts = (Part("convolution: kernels", 0.002, 0.001, ("gemm",), ("brgconv",)), Part("aten::add", 0.0, 0.0005))
    explanation = Explanation("toy", "fp32", "audited", parts, 2, 2, 0.002, 0.0015)
    found = {column.title: column.cells for column in explanations.columns(explanation, ("old", "new"))}
    assert found["operation"] == ("convolution: kernels", "aten::add", "sum")
    assert found["change"] == ("−1.000 ms", "+500.0 µs", "−500.0 µs")
    assert found["kernels"] == ("gemm → brgconv", "", "")


def test_a_sentence_names_what_changed_most() -> None:
    """With the kernels of both sides; what is below a tenth of the difference is among the details."""
    parts = (
        Part("linear: kernels", 0.1, 0.2, ("brg_matmul",), ("ref:any",)),
        Part("conv: kernels", 0.2, 0.22, ("brgconv",), ("brgconv",)),
        Part("aten::gelu", 0.05, 0.049),
        Part("everything else", 0.1, 0.2),
    )
    said = sentence(Explanation("toy", "fp32", "audited", parts, 2, 2, 0.4, 0.6))
    assert said == "audited passes +219.0 ms, timed +200.0 ms; linear: kernels +100.0 ms (brg_matmul → ref:any)"


def test_a_difference_of_many_small_changes_names_none() -> None:
    """Each below a tenth of it."""
    parts = tuple(Part(f"aten::op{number}", 0.1, 0.109) for number in range(11))
    said = sentence(Explanation("toy", "fp32", "audited", parts, 2, 2, 1.0, 1.1))
    assert said.endswith("no operation changed by 10 % of that")


def test_a_run_of_two_releases_says_what_changed() -> None:
    """Also what became faster; with ``--details`` every operation of both."""
    rows = summary.rows(releases())
    said = explanations.brief(rows)
    assert [line.name for line in said.items] == ["bert python=new", "resnet50 python=new"]
    detailed = printed(run.document(releases(), rows, details=True), width=160)
    assert "Where the difference of bert python=new comes from" in detailed
    assert "oneDNN ref:any" in detailed


def precisions(factor: float, count: int = 1) -> list[summary.SummaryRow]:
    """fp32, and settings that take ``factor`` times as long."""
    slow = {True: of_release("a kernel", {"aten::addmm": 0.1}), False: of_release("another", {"aten::addmm": 0.3})}
    settings = [Setting(), *(Setting("bf16", batch=4, seed=seed) for seed in range(count))]
    runs = [
        make(
            [0.1 * (factor if index else 1) * (1 + 0.001 * number)] * 30,
            setting=each,
            group=index,
            round=number,
            evidence=slow[index == 0],
        )
        for index, each in enumerate(settings)
        for number in range(8)
    ]
    return shown(*runs)


def test_what_a_faster_precision_changed_is_a_detail() -> None:
    """It is what it is used for; that it is slower is not."""
    assert explanations.brief(precisions(0.3)).items == ()
    assert len(list(explanations.of_run(precisions(0.3)))) == 1
    said = explanations.brief(precisions(3.0))
    assert len(said.items) == 1


def test_a_long_table_explains_some_rows_and_counts_the_others() -> None:
    """The rest is among the details."""
    said = explanations.brief(precisions(3.0, NAMED_ROWS + 2))
    assert len(said.items) == NAMED_ROWS + 1
    assert (said.items[-1].name, said.items[-1].text) == ("2 more", "--details")


def test_without_audits_there_is_nothing_to_say() -> None:
    """A run with ``--no-audit``."""
    runs = [
        make([0.1 * (1 + group)] * 30, setting=Setting("bf16") if group else None, group=group, round=number)
        for group in (0, 1)
        for number in range(8)
    ]
    assert explanations.brief(shown(*runs)).items == ()

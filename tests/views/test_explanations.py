"""What is said of the operations that explain a difference."""

from __future__ import annotations

from fake_runs import make, shown
from shown_documents import of_release

from modelzoo.comparison.explanations import Explanation, Part
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views import explanations
from modelzoo.views.explanations import NAMED_ROWS, passes_text, sentence


def explained(*parts: Part, timed: tuple[float, float] = (1.0, 0.8)) -> Explanation:
    """Two audited passes and one, which took as long as their parts."""
    return Explanation("bert", "fp32", "audited", parts, 2, 1, *timed)


def said(base: float, other: float, **how: tuple[float, float]) -> str:
    """What is said of passes of these seconds."""
    return passes_text(explained(Part("aten::mm", base, other), **how), ("xeon", "arm"))


def test_passes_may_not_explain_the_difference() -> None:
    """If they differ the other way round, or not at all, or if there is none; then nothing is divided by zero."""
    assert "They differ by −250.0 ms, 125 % of the timed difference (−200.0 ms). " in said(1.25, 1.0)
    for other in (1.1, 1.0):
        assert "so they do not explain the timed difference" in said(1.0, other)
        text = sentence(explained(Part("aten::mm", 1.0, other)))
        assert text.endswith("timed −200.0 ms: they do not explain the difference")
    assert "the timed ones by +0" in said(1.0, 0.9, timed=(1.0, 1.0))


def test_without_a_significant_difference_nothing_is_explained() -> None:
    """A share of what may be chance says nothing; one of 10,000 % was shown."""
    found = explained(Part("aten::mm", 1.0, 0.9), timed=(1.0, 0.999))
    assert "of the timed difference" not in passes_text(found, ("xeon", "arm"), is_decided=False)


def test_a_sentence_names_what_changed_most() -> None:
    """With the kernels of both sides; what is below a tenth of the difference is among the details."""
    parts = (
        Part("linear: kernels", 0.1, 0.2, ("brg_matmul",), ("ref:any",)),
        Part("conv: kernels", 0.2, 0.22, ("brgconv",), ("brgconv",)),
        Part("aten::gelu", 0.05, 0.049),
        Part("everything else", 0.1, 0.2),
    )
    text = "audited passes +219.0 ms, timed +200.0 ms; linear: kernels +100.0 ms (brg_matmul → ref:any)"
    assert sentence(explained(*parts, timed=(0.4, 0.6))) == text
    many = (Part(f"aten::op{number}", 0.1, 0.109) for number in range(11))
    assert sentence(explained(*many, timed=(1.0, 1.1))).endswith("no operation changed by 10 % of that")


def precisions(factor: float, count: int = 1) -> list[summary.SummaryRow]:
    """fp32, and settings that take ``factor`` times as long."""
    settings = [Setting(), *(Setting("bf16", batch=4, seed=seed) for seed in range(count))]
    runs = [
        make(
            [0.1 * (factor if index else 1) * (1 + 0.001 * number)] * 30,
            setting=each,
            round=number,
            evidence=of_release(f"kernel {index}", {"aten::addmm": 0.1 if index else 0.3}),
        )
        for index, each in enumerate(settings)
        for number in range(8)
    ]
    return shown(*runs)


def test_what_a_faster_precision_changed_is_a_detail() -> None:
    """It is what it is used for; that it is slower is not. Of many rows some are explained, the others counted."""
    assert explanations.brief(precisions(0.3)).items == ()
    assert len(list(explanations.of_run(precisions(0.3)))) == 1
    assert len(explanations.brief(precisions(3.0)).items) == 1
    *_, last = (found := explanations.brief(precisions(3.0, NAMED_ROWS + 2))).items
    assert (len(found.items), last.name, last.text) == (NAMED_ROWS + 1, "2 more", "--details")

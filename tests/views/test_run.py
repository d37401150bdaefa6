"""What is printed for people: plain without a terminal, 100 columns wide, nothing taken for markup."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import evidence, make, result_of, warning
from generated_results import generation_run
from printed import printed

from modelzoo.document import Section
from modelzoo.frozen import replace
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Run
from modelzoo.records.run_report import PREFILL, GenerationPhase
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views import run

STEADY = [0.0501, 0.0502, 0.05, 0.0503] * 30


def shown(*runs: Run, **options: Any) -> str:
    """What ``show`` prints of these runs, without a terminal."""
    result = result_of(*runs)
    return printed(run.document(result, summary.rows(result), **options), width=160)


def pair(**changes: Any) -> list[Run]:
    """Three rounds of fp32 and of bf16, which takes twice the time."""
    bf16 = Setting("bf16")
    runs = [make([(1 + i / 100) * x for x in STEADY], round=i, **changes) for i in range(3)]
    return runs + [
        make([(2 + i / 90) * x for x in STEADY], setting=bf16, group=1, round=i, **changes) for i in range(3)
    ]


def test_only_conditions_that_matter_are_shown_without_details() -> None:
    """Each with its hint; notes and the numbers of each row are details."""
    found = (warning("OTHER_LOAD", "a busy machine", "stop it"), warning("OUTLIERS", "an outlier", "ignore it"))
    text = shown(*pair(warnings=found))
    assert "warning: a busy machine\n         → stop it\n" in text
    assert "an outlier" not in text
    assert "first answer" not in text
    text = shown(*pair(warnings=found), details=True)
    assert "note: an outlier\n      → ignore it\n" in text
    assert "\ntoy bf16=autocast:\n" in text
    assert "first answer after the weights were loaded: 9.000 s" in text


def test_the_two_worst_conditions_are_shown_and_the_others_counted() -> None:
    """Once for all rows; with ``--details`` all of them."""
    found = tuple(warning(code, f"{code} happened", "a hint") for code in ("NUMA", "SMT", "GOVERNOR", "OUTLIERS"))
    text = shown(*pair(warnings=found))
    assert [code in text for code in ("NUMA happened", "SMT happened", "GOVERNOR happened")] == [True, True, False]
    assert text.endswith("\n\n2 more: --details\n")
    assert "more: --details" not in shown(*pair(warnings=found), details=True)


def test_a_condition_that_invalidates_is_called_so() -> None:
    """It is not a mere warning."""
    text = shown(*pair(), make(STEADY, workload="other", group=2, warnings=(warning("FP32_NOT_FP32", "not fp32"),)))
    assert "invalid: other: not fp32\n" in text


def test_markup_in_messages_is_harmless() -> None:
    """Brackets are text."""
    found = (warning("X", "odd [bold]thing[/]", "do [this]"),)
    text = shown(*pair(warnings=found), make(None, workload="b", group=2, error="the worker [x] died"), details=True)
    assert "odd [bold]thing[/]" in text
    assert "→ do [this]" in text
    assert "failed: b fp32: the worker [x] died" in text


def test_lines_of_the_log_that_could_not_be_read_are_shown_with_the_kernels() -> None:
    """By ``--details``, as they are, so that they can be sent to somebody."""
    line = "onednn_verbose,v1,tomorrow,exec,cpu,[x],0.5"
    audit = replace(evidence(ProofVerdict.UNKNOWN), unread_lines=(line,))
    assert f"could not be read: {line}" in printed(run.kernels(result_of(make(STEADY, evidence=audit))))


@pytest.mark.parametrize(
    ("phases", "title"),
    [
        ((), "kernels of 2 audited passes"),
        (("",), "kernels of a prefill and 1 step of decoding"),
        (("the state of a generation cannot be copied: no",), "kernels of 2 audited passes"),
    ],
)
def test_a_generation_that_was_audited_as_a_whole_is_called_so(phases: tuple[str, ...], title: str) -> None:
    """Also if that is because its phases could not be audited alone; one that was has tables of its own."""
    audit = replace(evidence(ProofVerdict.FP32), iterations=2)
    alone = tuple(GenerationPhase(PREFILL, None if problem else audit, problem) for problem in phases)
    found = result_of(generation_run(0.4, [0.04], phases=alone, evidence=audit))
    section, *_ = run.kernels(found)
    assert isinstance(section, Section)
    assert section.title == f"llm fp32: {title}"

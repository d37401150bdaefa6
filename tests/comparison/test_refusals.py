"""What makes two sides of a row not comparable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from exported_results import DETECTS_SAME, OTHER, SAME, exported
from fake_runs import MACHINE, WEIGHTS, changed, evidence, make, result_of, warning
from proven_results import BF16, FP32, proven, session, session_of, side

from modelzoo.comparison.pairing import pairs, parse_pairing, settings_of
from modelzoo.frozen import replace
from modelzoo.records.canary import CanaryLevel
from modelzoo.records.evidence import ProofVerdict
from modelzoo.records.run import Result, SideReport, ValidityEntry, ValidityReport
from modelzoo.records.validity import Reason, ReasonKind, Validity, ValidityVerdict
from modelzoo.records.workload import Count
from modelzoo.results import summary
from modelzoo.results.refusals import Batches, Failed, Metric, Obstacle, Pair, Refusal, divided, refusals
from modelzoo.setting import Setting
from modelzoo.validity.checks import check_value
from modelzoo.views.findings import headline
from modelzoo.views.speed import outcome_text, refusal

NAMES = ("old", "new")


def found(base: Result, other: Result, metric: Metric = Metric.LATENCY, pairing: str = "") -> tuple[Refusal, ...]:
    """What makes the first row of two results not comparable."""
    chosen = [parse_pairing(pairing)] if pairing else []
    sides = [settings_of(side(name, result)) for name, result in zip(NAMES, (base, other))]
    return refusals(pairs(*sides, chosen)[0], metric)


def obstacles(refused: tuple[Refusal, ...]) -> list[Obstacle]:
    """What they are."""
    return [each.obstacle for each in refused]


def test_equal_work_in_proven_precision_is_comparable() -> None:
    """Also if other kernels did it, with another torch, on another machine."""
    other = session(machine=replace(MACHINE, cpu="Neoverse-V1"), versions={"torch": "2.9.1"}, kernels=None)
    assert found(session(), other) == ()


def counts(value: float) -> tuple[Count, ...]:
    """A number of boxes."""
    return (Count("boxes per image", value, 0, 1000, "a paper"),)


ODD = {
    "other weights": {"weights": replace(WEIGHTS, sha256="other")},
    "unknown weights": {"weights": replace(WEIGHTS, sha256="")},
    "other inputs": {"inputs_digest": "other"},
    "unknown inputs": {"inputs_digest": None},
    "no audit": {"evidence": None},
    "unknown precision": {"evidence": evidence(ProofVerdict.UNKNOWN)},
    "not active": {"evidence": evidence(ProofVerdict.NOT_ACTIVE)},
    "not fp32": {"evidence": evidence(ProofVerdict.NOT_FP32)},
    "tf32, which no name of a kernel shows": {"level": CanaryLevel.REDUCED},
    "other threads": {"warnings": (warning("OTHER_THREADS", "2 threads"),)},
    "wrong results": {"evidence": evidence(ProofVerdict.WRONG_RESULTS)},
    "emulator": {"machine": replace(MACHINE, emulator="qemu")},
    "other outputs": exported(OTHER),
    "outputs not compared": exported(),
    "other work": {"counts": counts(70.0)},
}


def test_what_decides_speed_or_precision_must_be_equal_and_known(approved: Callable[[str, str], None]) -> None:
    """On whichever side it is; a quarter more work is other work, rounding moves a few boxes across a threshold."""
    said, plain = [], session(counts=counts(100.0))
    for name, changes in ODD.items():
        odd = session_of([("toy", FP32, 0.1)], **{"counts": counts(80.0), **changes})
        (refused,), (mirrored,) = found(plain, odd), found(odd, plain)
        assert mirrored.obstacle is refused.obstacle
        said.append(f"{name}: {refused.obstacle.value}: {refusal(refused)}")
    approved("said/refusals.txt", "".join(f"{each}\n" for each in said))


@pytest.mark.parametrize("proof", [*ProofVerdict, None])
@pytest.mark.parametrize("setting", [FP32, BF16])
def test_run_marks_what_compare_refuses(setting: Setting, proof: ProofVerdict | None) -> None:
    """One rule for what is unproven, on either side: a ratio that ``compare`` refuses is no plain FASTER in ``run``."""
    shown = evidence(proof) if proof is not None else None
    plain = replace(setting, threads=2)
    for base, other in ((None, shown), (shown, None)):
        changes = [{"evidence": each} if each is shown else {} for each in (base, other)]
        runs = [[proven(0.2, i, setting, **changes[0]), proven(0.1, i, plain, **changes[1])] for i in range(8)]
        (_, row) = summary.rows(result_of(*(run for each in runs for run in each)))
        refused = found(
            session_of([("toy", setting, 0.2)], **changes[0]), session_of([("toy", setting, 0.1)], **changes[1])
        )
        is_refused = any(each in (Obstacle.UNPROVEN, Obstacle.INACTIVE, Obstacle.WRONG) for each in obstacles(refused))
        outcome = outcome_text(row.speed)
        assert outcome in (["FASTER (unproven)", "NOT COMPARABLE"] if is_refused else ["FASTER"])
        if is_refused and outcome != "NOT COMPARABLE":
            assert "(unproven)" in str(headline([_, row]).items[0].text)


def test_all_processes_must_have_had_the_same_inputs() -> None:
    """If they differ within a side, nothing says that the other side had the same."""
    *runs, last = session().runs
    odd = replace(session(), runs=(*runs, replace(last, report=changed(last.report, inputs_digest="other"))))
    assert obstacles(found(session(), odd)) == [Obstacle.INPUTS]


def test_bf16_must_be_active_on_both_sides() -> None:
    """In parts is enough: which kernels have bf16 is what is compared."""
    expected = {ProofVerdict.ACTIVE: [], ProofVerdict.PARTLY: [], ProofVerdict.UNKNOWN: [Obstacle.UNPROVEN]}
    for verdict, refused in {**expected, ProofVerdict.NOT_ACTIVE: [Obstacle.INACTIVE]}.items():
        base, other = (session_of([("toy", BF16, 0.1)], **each) for each in ({}, {"evidence": evidence(verdict)}))
        assert obstacles(found(base, other)) == refused


def test_an_engine_that_computes_the_same_is_not_refused() -> None:
    """It counts no work, unless it is known to detect the same."""
    assert found(session(), session(**exported(SAME))) == ()
    assert found(session(counts=counts(1.0)), session(**exported(DETECTS_SAME))) == ()
    assert obstacles(found(session(counts=counts(1.0)), session(**exported(SAME)))) == [Obstacle.UNRECORDED]


OTHER_WEIGHTS = {"weights": replace(WEIGHTS, sha256="other")}
ON_ENGINE = (FP32, FP32.replace(engine="onnxruntime"), "engine=torch:engine=onnxruntime")


@pytest.mark.parametrize(
    ("base", "other", "pairing", "changes", "expected"),
    [
        # What says how a model runs needs the same work; primitive-cache was missing in a list of names.
        (FP32, BF16, "precision=fp32:precision=bf16", OTHER_WEIGHTS, [Obstacle.WEIGHTS]),
        (
            Setting(primitive_cache=0),
            Setting(primitive_cache=64),
            "primitive-cache=0:primitive-cache=64",
            OTHER_WEIGHTS,
            [Obstacle.WEIGHTS],
        ),
        (*ON_ENGINE, exported(SAME), []),
        (*ON_ENGINE, exported(SAME, inputs_digest="other"), [Obstacle.INPUTS]),
        # Another model has other weights and inputs; its precision is still to be proven.
        (
            Setting(options={"size": 1}),
            Setting(options={"size": 2}),
            "size=1:size=2",
            {**OTHER_WEIGHTS, "inputs_digest": "other", "evidence": None},
            [Obstacle.UNPROVEN],
        ),
    ],
)
def test_what_was_paired_on_purpose_is_not_held_against_it(
    base: Setting, other: Setting, pairing: str, changes: dict[str, Any], expected: list[Obstacle]
) -> None:
    """Everything else is."""
    results = session_of([("toy", base, 0.1)]), session_of([("toy", other, 0.2)], **changes)
    assert obstacles(found(*results, pairing=pairing)) == expected


def test_batch_sizes_must_be_equal_unless_they_are_paired_on_purpose() -> None:
    """Times are compared per item then; a first call or the memory of another batch is another question.

    Sizes that were left open may differ: another release may have another default.
    """
    small, large = (session_of([("toy", Setting(batch=batch), 0.1)], inputs_digest=str(batch)) for batch in (1, 8))
    purpose = "batch=1:batch=8"
    assert found(small, large, Metric.THROUGHPUT, purpose) == found(small, large, Metric.LATENCY, purpose) == ()
    (refused,) = found(small, large, Metric.MEMORY, purpose)
    assert refused == Refusal(Obstacle.BATCH, fact=Batches((1,), (8,)))
    nine = changed(session().runs[0].report, setting=session().runs[0].report.setting.replace(batch=9))
    other = replace(session(), runs=tuple(replace(run, report=nine) for run in session().runs))
    assert obstacles(found(session(), other)) == [Obstacle.BATCH]


def test_predictions_that_are_not_valid_are_refused() -> None:
    """Wrong answers are fast; answers that nobody judged are not refused."""
    result = session()
    judged = Validity(
        *("toy", "classification", "top1", 1.0, 0.5, ValidityVerdict.NOT_VALID, 1, "picture", 10, "picture", 10),
        reason=Reason(ReasonKind.FAILED_CHECKS),
        checks=(check_value("accuracy", 0.5, {}),),
    )
    refused = []
    for verdict in (ValidityVerdict.NOT_VALID, ValidityVerdict.VALID, ValidityVerdict.NUMERIC_ONLY):
        prepared = result.runs[0].report.prepared
        report = ValidityReport(replace(judged, verdict=verdict), prepared, tested=SideReport())
        entry = ValidityEntry("toy", 0, FP32, 1, report)
        refused.append(found(session(), replace(result, validity=(entry,))))
    assert list(map(obstacles, refused)) == [[Obstacle.INVALID], [], []]
    assert "NOT VALID: task metric ÷ fp32's is 0.5, required >= 0.99" in refusal(refused[0][0])


def test_what_only_one_side_has_cannot_be_allowed() -> None:
    """Nor can a setting all of whose processes failed."""
    (setting,) = settings_of(side("old", session()))
    (missing,) = refusals(Pair(setting, None))
    assert missing == Refusal(Obstacle.MISSING, "old")
    (failed,) = found(session(), result_of(make(None, error="out of memory")))
    assert failed == Refusal(Obstacle.MISSING, "new", Failed("out of memory"))
    assert refusal(failed) == "all processes of new failed: out of memory"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """So that nobody has to allow one thing after the other."""
    changes = {"weights": replace(WEIGHTS, sha256="other"), "inputs_digest": None, "evidence": None}
    refused = found(session(), session(**changes))
    assert obstacles(refused) == [Obstacle.WEIGHTS, Obstacle.UNRECORDED, Obstacle.UNPROVEN]
    kept, allowed = divided(refused, {Obstacle.WEIGHTS, Obstacle.UNPROVEN})
    assert obstacles(kept) == [Obstacle.UNRECORDED]
    assert obstacles(allowed) == [Obstacle.WEIGHTS, Obstacle.UNPROVEN]

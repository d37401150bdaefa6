"""Which settings stand in one row."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of
from load_results import load
from load_results import result as load_result
from proven_results import BF16, FP32, session, session_of, side

from modelzoo.comparison.estimate import StoredResult
from modelzoo.comparison.pairing import Pairing, make_side, pairs, parse_pairing, settings_of
from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.results.refusals import Obstacle, Pair, SideSetting
from modelzoo.setting import Setting


def measured(*settings: Setting, workload: str = "toy") -> tuple[SideSetting, ...]:
    """One side that measured these settings."""
    return settings_of(side("a", session_of([(workload, setting, 0.1) for setting in settings])))


def shown(found: list[Pair]) -> list[tuple[str | None, str | None]]:
    """The labels of both sides."""
    return [(pair.base.label if pair.base else None, pair.other.label if pair.other else None) for pair in found]


COMPILED = Setting(mode="compile")
BOTH_COMPILED = (COMPILED, Setting("bf16", mode="compile"))
METHODS = (Setting("bf16", "autocast"), Setting("bf16", "cast"))


@pytest.mark.parametrize(
    ("base", "other", "pairing", "expected"),
    [
        # The baseline's order counts; what only the other side has comes last.
        ((FP32, BF16), (COMPILED, BF16, FP32), "", [("fp32", "fp32"), ("bf16", "bf16"), (None, "fp32 compile")]),
        # As in a comparison of a setting with itself.
        ((FP32, FP32), (FP32, FP32), "", [("fp32", "fp32"), ("fp32 #2", "fp32 #2")]),
        # The equals of what is paired on purpose are no missing rows.
        ((FP32, BF16), (FP32, BF16), "precision=fp32:precision=bf16", [("fp32", "bf16")]),
        # It holds for all settings that match; everything else must be equal.
        ((FP32, BF16), BOTH_COMPILED, "mode=eager:mode=compile", [("fp32", "fp32 compile"), ("bf16", "bf16 compile")]),
        (
            (FP32, BF16),
            BOTH_COMPILED,
            "mode=eager precision=bf16:mode=compile",
            [("fp32", None), ("bf16", "bf16 compile"), (None, "fp32 compile")],
        ),
        # A method means bf16; a setting of the baseline can be compared with several others.
        ((FP32,), METHODS, "precision=fp32:precision=bf16", [("fp32", "bf16=autocast"), ("fp32", "bf16=cast")]),
        ((FP32,), METHODS, "precision=fp32:bf16=cast", [("fp32", "bf16=cast"), (None, "bf16=autocast")]),
    ],
)
def test_equal_settings_are_paired_and_what_is_named(
    base: tuple[Setting, ...], other: tuple[Setting, ...], pairing: str, expected: list[tuple[str | None, str | None]]
) -> None:
    """Each pair stands in a row."""
    chosen = [parse_pairing(pairing)] if pairing else []
    assert shown(pairs(measured(*base), measured(*other), chosen)) == expected


@pytest.mark.parametrize(
    ("base", "other", "is_equal"),
    [
        (Setting(weights="/home/a/resnet.pth"), Setting(weights="/data/resnet.pth"), True),
        (Setting(input="/home/a/cat.jpg"), Setting(input="~/cat.jpg"), True),
        (Setting(options={"vocabulary": "/a/words.txt"}), Setting(options={"vocabulary": "/b/words.txt"}), True),
        (Setting(threads=None), Setting(threads=None), True),
        # The file of an interpreter is always called python.
        (Setting(options={"tool": "~/envs/a/bin/python"}), Setting(options={"tool": "~/envs/b/bin/python"}), False),
        (Setting(options={"size": 1}), Setting(options={"size": 1, "new": 2}), True),
        (Setting(weights="/a/v1.pth"), Setting(weights="/a/v2.pth"), False),
        (Setting(weights="auto"), Setting(weights="random"), False),
        (Setting(threads=2), Setting(threads=None), False),
        (Setting(options={"size": 1}), Setting(options={"size": 2}), False),
        (Setting(seed=1), Setting(seed=2), False),
    ],
)
def test_what_was_asked_for_tells_settings_apart(base: Setting, other: Setting, is_equal: bool) -> None:
    """Not directories, nor an option that only one release knows. Threads that were left open are equal."""
    found = shown(pairs(measured(base), measured(other)))
    assert len(found) == (1 if is_equal else 2)
    assert (found[0][0] == found[0][1]) is is_equal


def test_an_option_that_one_side_varies_counts_although_the_other_does_not_know_it() -> None:
    """Else two of its settings would be one."""
    varied = [Setting(options={"new": value}) for value in (1, 2)]
    assert len(pairs(measured(Setting()), measured(*varied))) == 3


def test_pairings_are_parsed() -> None:
    """The notation of ``--setting`` on both sides of a colon; a colon in a value is a part of it."""
    for text, before, after in (
        ("device=cuda:0:device=cuda:1", {"device": "cuda:0"}, {"device": "cuda:1"}),
        ("mode=eager threads=2 : mode=compile", {"mode": "eager", "threads": "2"}, {"mode": "compile"}),
        ("weights='a b':weights=c", {"weights": "a b"}, {"weights": "c"}),
    ):
        assert parse_pairing(text) == Pairing(before, after)


@pytest.mark.parametrize("text", ["", "fp32:bf16", "precision=fp32", "a=1:b=2:c=3", "a=1 a=2:b=3", "a=1:b='", "a=:b=1"])
def test_other_forms_are_refused(text: str) -> None:
    """In one line that shows the form."""
    with pytest.raises(UsageError, match="--pair"):
        parse_pairing(text)


TWO = [("toy", FP32, 0.1), ("toy", BF16, 0.2)]


def test_sessions_are_ordered_by_time() -> None:
    """Whatever the order of the files."""
    found = side("a", session(day=3), session(day=1), session(day=2))
    assert [stored.result.created[8:10] for stored in found.results] == ["01", "02", "03"]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([session(), session_of(TWO, 2)], "different workloads or settings"),
        ([session(), session(day=2, machine=replace(MACHINE, cpu="N3"))], "were measured on different machines"),
        ([session(), session(day=2, versions={"torch": "2.9.1"})], "different software, weights or inputs"),
        ([session(), session(day=2, inputs_digest="other")], "different software, weights or inputs"),
        ([session(), session()], "hold the same session"),
        ([result_of()], "nothing was measured"),
        ([load_result(load())], "'modelzoo load'.*'modelzoo report' shows it$"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(results: list[Result], message: str) -> None:
    """In one line that names them. 'modelzoo validate' stores results without measurements."""
    with pytest.raises(InputError, match=message) as caught:
        side("a", *results)
    assert "a/1.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sessions_with_other_inputs_or_weights_can_be_allowed() -> None:
    """As between two sides; nothing else then differs unnoticed."""
    for changes, obstacle in (
        ({"inputs_digest": "other"}, Obstacle.INPUTS),
        ({"weights": replace(WEIGHTS, sha256="other")}, Obstacle.WEIGHTS),
    ):
        results = [StoredResult("1", session()), StoredResult("2", session(day=2, **changes))]
        assert len(make_side("a", results, {obstacle}).results) == 2
        with pytest.raises(InputError, match="different software, weights or inputs"):
            make_side("a", results, set(Obstacle) - {obstacle})


def test_settings_are_found_in_all_sessions_whatever_their_order() -> None:
    """The second session asked for bf16 first; equal settings, as of a comparison with itself, have two groups."""
    found = settings_of(side("a", session_of(TWO), session_of(TWO[::-1], 2)))
    assert groups(found) == {"fp32": [{0}, {1}], "bf16": [{1}, {0}]}
    assert all(run.requested == each.requested for each in found for runs in each.sessions for run in runs)
    found = settings_of(side("a", session_of([TWO[0], TWO[0]]), session_of([TWO[0], TWO[0]], 2)))
    assert groups(found) == {"fp32": [{0}, {0}], "fp32 #2": [{1}, {1}]}


def groups(found: tuple[SideSetting, ...]) -> dict[str, list[set[int]]]:
    """The groups of each setting's runs, by session."""
    return {each.label: [{run.group for run in runs} for runs in each.sessions] for each in found}


def test_a_setting_that_a_session_did_not_run_has_fewer_sessions() -> None:
    """The second session was interrupted before bf16 began; failed runs belong to their session."""
    whole, partial = session_of(TWO), session_of(TWO, 2)
    partial = replace(partial, runs=tuple(run for run in partial.runs if run.group == 0))
    assert [len(each.sessions) for each in settings_of(side("a", whole, partial))] == [2, 1]
    failed = replace(result_of(make(None, error="died")), created="2026-03-02T00:00:00+00:00")
    (found,) = settings_of(side("a", session(), failed))
    assert [len(runs) for runs in found.sessions] == [8, 1]


def test_the_latest_judgement_counts() -> None:
    """Each session may have been judged."""
    results = [
        replace(session(day=day), validity=(ValidityEntry("toy", 0, FP32, code),)) for day, code in ((1, 1), (2, 0))
    ]
    (found,) = settings_of(side("a", *results, session(day=3)))
    assert found.validity.exit_code == 0

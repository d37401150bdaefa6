"""Which settings stand in one row."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of
from load_results import load
from load_results import result as load_result
from proven_results import BF16, FP32, proven, session, session_of, side

from modelzoo.comparison.model import StoredResult
from modelzoo.comparison.pairing import Pairing, make_side, pairs, parse_pairing, settings_of, words
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


def test_equal_settings_are_paired_whatever_their_order() -> None:
    """The baseline's order counts; what only the other side has comes last."""
    compiled = Setting(mode="compile")
    found = pairs(measured(FP32, BF16), measured(compiled, BF16, FP32))
    assert shown(found) == [("fp32", "fp32"), ("bf16", "bf16"), (None, "fp32 compile")]


def test_what_is_missing_is_a_row() -> None:
    """On either side."""
    assert shown(pairs(measured(FP32, BF16), measured(FP32))) == [("fp32", "fp32"), ("bf16", None)]


def test_workloads_are_not_mixed() -> None:
    """Equal settings of other workloads are no pair."""
    assert shown(pairs(measured(FP32), measured(FP32, workload="other"))) == [("fp32", None), (None, "fp32")]


def test_a_setting_that_occurs_twice_is_paired_in_order() -> None:
    """As in a comparison of a setting with itself."""
    found = pairs(measured(FP32, FP32), measured(FP32, FP32))
    assert shown(found) == [("fp32", "fp32"), ("fp32 #2", "fp32 #2")]
    assert [pair.base.groups for pair in found if pair.base] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("base", "other"),
    [
        (Setting(weights="/home/a/resnet.pth"), Setting(weights="/data/resnet.pth")),
        (Setting(input="/home/a/cat.jpg"), Setting(input="~/cat.jpg")),
        (Setting(options={"vocabulary": "/a/words.txt"}), Setting(options={"vocabulary": "/b/words.txt"})),
        (Setting(threads=None), Setting(threads=None)),
        (Setting(options={"size": 1}), Setting(options={"size": 1, "new": 2})),
    ],
)
def test_what_says_nothing_does_not_tell_settings_apart(base: Setting, other: Setting) -> None:
    """Directories, and an option that only one release knows. Threads that were left open are equal."""
    (found,) = pairs(measured(base), measured(other))
    assert found.base is not None
    assert found.other is not None
    assert found.base.label == found.other.label


@pytest.mark.parametrize(
    ("base", "other"),
    [
        (Setting(weights="/a/v1.pth"), Setting(weights="/a/v2.pth")),
        (Setting(weights="auto"), Setting(weights="random")),
        (Setting(threads=2), Setting(threads=None)),
        (Setting(options={"size": 1}), Setting(options={"size": 2})),
        (Setting(seed=1), Setting(seed=2)),
    ],
)
def test_what_was_asked_for_tells_settings_apart(base: Setting, other: Setting) -> None:
    """Both stand alone."""
    assert [pair.other is None for pair in pairs(measured(base), measured(other))] == [True, False]


def test_an_option_that_one_side_varies_counts_although_the_other_does_not_know_it() -> None:
    """Else two of its settings would be one."""
    varied = [Setting(options={"new": value}) for value in (1, 2)]
    assert len(pairs(measured(Setting()), measured(*varied))) == 3


def test_settings_are_written_as_on_the_command_line() -> None:
    """In the notation of ``--setting``."""
    found = words(Setting("bf16", "cast", channels_last=True, batch=8, options={"size": 3}))
    assert found["precision"] == "bf16"
    assert found["bf16"] == "cast"
    assert found["channels-last"] == "on"
    assert found["batch"] == "8"
    assert found["threads"] == "default"
    assert found["size"] == "3"


def test_an_interpreter_is_named_by_its_environment() -> None:
    """Its file is always called python."""
    assert words(Setting(options={"tool": "~/envs/torch-2.9.1/bin/python"}))["tool"] == "torch-2.9.1"


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("precision=fp32:precision=bf16", {"precision": "fp32"}, {"precision": "bf16"}),
        ("device=cuda:0:device=cuda:1", {"device": "cuda:0"}, {"device": "cuda:1"}),
        ("mode=eager threads=2 : mode=compile", {"mode": "eager", "threads": "2"}, {"mode": "compile"}),
        ("weights='a b':weights=c", {"weights": "a b"}, {"weights": "c"}),
    ],
)
def test_pairings_are_parsed(text: str, before: dict[str, str], after: dict[str, str]) -> None:
    """The notation of ``--setting`` on both sides of a colon; a colon in a value is a part of it."""
    assert parse_pairing(text) == Pairing(before, after)


@pytest.mark.parametrize("text", ["", "fp32:bf16", "precision=fp32", "a=1:b=2:c=3", "a=1 a=2:b=3", "a=1:b='", "a=:b=1"])
def test_other_forms_are_refused(text: str) -> None:
    """In one line that shows the form."""
    with pytest.raises(UsageError, match="--pair"):
        parse_pairing(text)


def test_what_differs_is_paired_on_purpose() -> None:
    """The pair stands in one row; its equals, which both sides have, are no missing rows."""
    found = pairs(measured(FP32, BF16), measured(FP32, BF16), [parse_pairing("precision=fp32:precision=bf16")])
    assert shown(found) == [("fp32", "bf16")]
    assert set(found[0].on_purpose) == {"precision", "bf16"}


def test_a_pairing_holds_for_all_settings_that_match() -> None:
    """Eager with compile, in both precisions; everything else must be equal."""
    eager, compiled = measured(FP32, BF16), measured(Setting(mode="compile"), Setting("bf16", mode="compile"))
    found = pairs(eager, compiled, [parse_pairing("mode=eager:mode=compile")])
    assert shown(found) == [("fp32", "fp32 compile"), ("bf16", "bf16 compile")]
    found = pairs(eager, compiled, [parse_pairing("mode=eager precision=bf16:mode=compile")])
    assert shown(found) == [("fp32", None), ("bf16", "bf16 compile"), (None, "fp32 compile")]


def test_a_bf16_method_means_bf16_and_need_not_be_named() -> None:
    """One setting of the baseline can be compared with several others."""
    methods = measured(Setting("bf16", "autocast"), Setting("bf16", "cast"))
    both = pairs(measured(FP32), methods, [parse_pairing("precision=fp32:precision=bf16")])
    assert shown(both) == [("fp32", "bf16=autocast"), ("fp32", "bf16=cast")]
    one = pairs(measured(FP32), methods, [parse_pairing("precision=fp32:bf16=cast")])
    assert shown(one) == [("fp32", "bf16=cast"), (None, "bf16=autocast")]


def test_a_pairing_that_pairs_nothing_is_an_error() -> None:
    """It would otherwise go unnoticed."""
    with pytest.raises(UsageError, match="pairs nothing"):
        pairs(measured(FP32), measured(FP32), [parse_pairing("mode=script:mode=compile")])


TWO = [("toy", FP32, 0.1), ("toy", BF16, 0.2)]


def test_sessions_are_ordered_by_time() -> None:
    """Whatever the order of the files."""
    found = side("a", session(day=3), session(day=1), session(day=2))
    assert [stored.result.created[8:10] for stored in found.results] == ["01", "02", "03"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (session_of(TWO, 2), "different workloads or settings"),
        (session(day=2, machine=replace(MACHINE, cpu="Neoverse-V1")), "were measured on different machines"),
        (session(day=2, versions={"torch": "2.9.1"}), "different software, weights or inputs"),
        (session(day=2, inputs_digest="other"), "different software, weights or inputs"),
        (session(), "hold the same session"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(other: Result, message: str) -> None:
    """In one line that names them."""
    with pytest.raises(InputError, match=message) as caught:
        side("a", session(), other)
    assert "a/1.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"inputs_digest": "other"}, Obstacle.INPUTS),
        ({"weights": replace(WEIGHTS, sha256="other")}, Obstacle.WEIGHTS),
    ],
)
def test_sessions_with_other_inputs_or_weights_can_be_allowed(changes: dict[str, Any], obstacle: Obstacle) -> None:
    """As between two sides; nothing else then differs unnoticed."""
    results = [StoredResult(str(day), session(day=day, **(changes if day > 1 else {}))) for day in (1, 2)]
    assert len(make_side("a", results, {obstacle}).results) == 2
    with pytest.raises(InputError, match="different software, weights or inputs"):
        make_side("a", results, set(Obstacle) - {obstacle})


def test_results_without_measurements_are_refused() -> None:
    """'modelzoo validate' stores such results."""
    with pytest.raises(InputError, match="nothing was measured"):
        side("a", result_of())


def test_what_answered_requests_is_refused() -> None:
    """The line names the command that shows it."""
    with pytest.raises(InputError, match="'modelzoo load'.*'modelzoo report' shows it$"):
        side("a", load_result(load()))


def test_settings_are_found_in_all_sessions_whatever_their_order() -> None:
    """The second session asked for bf16 first."""
    found = settings_of(side("a", session_of(TWO), session_of(TWO[::-1], 2)))
    assert [(each.label, each.groups) for each in found] == [("fp32", (0, 1)), ("bf16", (1, 0))]
    assert all(run.requested == each.requested for each in found for runs in each.sessions for run in runs)


def test_equal_settings_are_told_apart_by_their_order() -> None:
    """A comparison of a setting with itself has two groups."""
    found = settings_of(side("a", session_of([TWO[0], TWO[0]]), session_of([TWO[0], TWO[0]], 2)))
    assert [(each.label, each.groups) for each in found] == [("fp32", (0, 0)), ("fp32 #2", (1, 1))]


def test_a_setting_that_a_session_did_not_run_has_fewer_sessions() -> None:
    """The second session was interrupted before bf16 began."""
    whole, partial = session_of(TWO), session_of(TWO, 2)
    partial = replace(partial, runs=tuple(run for run in partial.runs if run.group == 0))
    assert [len(each.sessions) for each in settings_of(side("a", whole, partial))] == [2, 1]


def test_the_latest_judgement_counts() -> None:
    """Each session may have been judged."""
    results = [
        replace(session(day=day), validity=(ValidityEntry("toy", 0, FP32, code),)) for day, code in ((1, 1), (2, 0))
    ]
    (found,) = settings_of(side("a", *results, session(day=3)))
    assert found.validity is not None
    assert found.validity.exit_code == 0


def test_a_path_of_weights_does_not_tell_sessions_apart() -> None:
    """The checkpoint lies in another directory."""
    runs = [proven(0.1, setting=Setting(weights=f"/{place}/model.pth")) for place in ("a", "b")]
    first, second = (replace(result_of(run), created=f"2026-03-0{day}") for day, run in enumerate(runs, 1))
    with pytest.raises(InputError, match="different software, weights or inputs"):
        side("a", first, second)


def test_failed_runs_belong_to_their_session() -> None:
    """A session in which all processes failed is no reason to refuse the side."""
    failed = replace(result_of(make(None, error="died")), created="2026-03-02T00:00:00+00:00")
    (found,) = settings_of(side("a", session(), failed))
    assert [len(runs) for runs in found.sessions] == [8, 1]

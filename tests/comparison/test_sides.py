"""Which results are sessions of one side, and what a side has measured."""

from __future__ import annotations

from typing import Any

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of
from instances import configuration
from instances import result as throughput_result
from load_results import load
from load_results import result as load_result
from proven_results import BF16, FP32, proven, session, session_of, side

from modelzoo.comparison.model import Obstacle, StoredResult
from modelzoo.comparison.pairing import make_side, settings_of
from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.run import Result, ValidityEntry
from modelzoo.setting import Setting

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


def test_the_clock_of_the_moment_does_not_make_another_machine() -> None:
    """Frequencies wander; the machine is the same."""
    assert side(
        "a", session(machine=replace(MACHINE, mhz=2000.0)), session(day=2, machine=replace(MACHINE, mhz=3000.0))
    )


def test_results_without_measurements_are_refused() -> None:
    """'modelzoo validate' stores such results."""
    with pytest.raises(InputError, match="nothing was measured"):
        side("a", result_of())


def test_what_instances_measured_together_is_refused() -> None:
    """The line names the command that shows it; that the instances saw different CPUs is not the reason."""
    found = throughput_result([configuration(1), configuration(2)], [])
    with pytest.raises(InputError, match="a/1.json is a result of 'modelzoo throughput', .*--price") as caught:
        side("a", found)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="'modelzoo load'.*'modelzoo report' shows it$"):
        side("a", load_result(load()))


def test_settings_are_found_in_all_sessions_whatever_their_order() -> None:
    """The second session asked for bf16 first."""
    found = settings_of(side("a", session_of(TWO), session_of(TWO[::-1], 2)))
    assert [(each.label, each.groups) for each in found] == [("fp32", (0, 1)), ("bf16", (1, 0))]
    assert all(run.asked == each.asked for each in found for runs in each.sessions for run in runs)


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

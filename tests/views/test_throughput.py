"""What is said about many instances beyond what ``tests/snapshots`` shows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from fake_runs import WEIGHTS, make
from instances import configuration, placement, ran, result

from modelzoo.cli.app import explicit_values, make_parser
from modelzoo.cli.parser import Parser
from modelzoo.frozen import replace
from modelzoo.records.race import Exclusion, ExclusionKind, Stage, StageKind
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.records.throughput import Configuration, ConfigurationRun
from modelzoo.results import throughput as results
from modelzoo.results.counting import NO_WINDOW
from modelzoo.stats import Interval
from modelzoo.stats.race import Choice
from modelzoo.views import throughput

ONE, FOUR = configuration(1), configuration(4)


def measured(
    bound: LatencyBound | None = None,
    again: Sequence[ConfigurationRun] = (),
    own: Sequence[Configuration] = (ONE, FOUR),
    **changes: object,
) -> Result:
    """One and four instances in three rounds; four of them take a quarter longer for a batch, and may be confirmed."""
    runs = list(again)
    for number, factor in enumerate((1.0, 1.01, 0.99)):
        runs += [ran(0, ONE, number, [0.1 * factor]), ran(1, FOUR, number, [0.125 * factor] * 4)]
    if again:
        confirmation = Stage(StageKind.CONFIRMATION, (0, 1), (len(again) + 1) // 2, None, 3)
        changes = {"stages": (confirmation,), "choice": Choice(1, 1), "is_complete": True, **changes}
    return result(own, runs, bound, **changes)


def confirming(*seconds: float) -> list[ConfigurationRun]:
    """Rounds of their own, in which one instance takes so long, and four 0.13 s."""
    pairs = [(ran(0, ONE, n, [each]), ran(1, FOUR, n, [0.13] * 4)) for n, each in enumerate(seconds, 3)]
    return [run for pair in pairs for run in pair]


def cells(found: Result) -> dict[str, tuple[str, ...]]:
    """The table by its headings."""
    return {column.title: column.cells for column in throughput.columns(found, results.rows(found))}


def notes(found: Result) -> list[str]:
    """What qualifies the table."""
    return throughput.notes(found, results.rows(found))


def test_without_a_bound_the_highest_throughput_is_the_answer() -> None:
    """Compared with one instance; it says that it comes from the rounds that chose it, which flatter it."""
    said = throughput.answer(measured())
    assert said.startswith("4 × 1 core, batch 1 has the highest throughput: 32.0 ±")
    assert "rows/s, which is not confirmed: it comes from the rounds that chose it" in said
    assert said.endswith(", 3.200× [3.200, 3.200] the throughput of one instance")
    found = cells(measured())
    assert found["efficiency"][1] in ("80 %", "81 %")
    assert not {"setting", "bound", "cost per million", "compute peak", "bandwidth"} & set(found)


def test_without_an_answer_the_reason_is_given() -> None:
    """Nothing meets the bound, or nothing ran."""
    none = "no configuration is known to meet"
    for found, said in (
        (measured(LatencyBound(90, 0.01)), f"{none} p90=10ms; the nearest is 1 × 1 core, batch 1 with a p90 of 101 ms"),
        (measured(LatencyBound(99.99, 0.01)), f"{none} p99.99=10ms; most batches took longer in all of them"),
        (result([ONE], []), "no configuration could be measured"),
    ):
        assert throughput.answer(found) == said
        assert throughput.command(found, "toy") is None


def test_a_process_that_died_in_the_confirmation_is_noted() -> None:
    """The confirmation is a table of its own; what it finds is the answer."""
    dead = ran(0, ONE, 3, [0.1], errors={0: "ended by SIGKILL"})
    found = measured(again=[dead, *(ran(1, FOUR, 3 + number, [0.13] * 4) for number in range(2))])
    said = throughput.answer(found)
    assert said.startswith("4 × 1 core, batch 1 has the highest throughput: 30.")
    assert " rows/s, measured again in 2 rounds after the choice, with a median latency of 130 ms" in said
    assert cells(found)["rows/s"][1].startswith("32.0 ±")
    assert "1 × 1 core, batch 1, measured again: failed: instance 0 in round 4: ended by SIGKILL" in notes(found)


@pytest.mark.parametrize(
    ("one", "changes", "said"),
    [
        ((0.1, 0.1, 0.1), {}, ", 3.077× [3.077, 3.077] the throughput of one instance"),
        (
            (0.02, 0.06, 0.03),
            {},
            ", 1.02× [0.26, 4.04] the throughput of one instance, which is AMBIGUOUS (p = 0.97, and a verdict needs "
            "p ≤ 0.02)",
        ),
        (
            (0.1, 0.1, 0.1),
            {"is_complete": False},
            ", 3.077× [3.077, 3.077] the throughput of one instance, which is AMBIGUOUS (3 rounds are fewer than were "
            "planned for a verdict)",
        ),
    ],
)
def test_the_confirmation_has_a_verdict(one: Sequence[float], changes: dict[str, Any], said: str) -> None:
    """By the rule of every comparison, once all of its rounds are there."""
    assert throughput.answer(measured(again=confirming(*one), **changes)).endswith(said)


def test_other_weights_are_not_compared_with_one_instance() -> None:
    """The ratio would be of two models."""
    found = measured(again=confirming(0.1, 0.1), own=(ONE, replace(FOUR, group=1)))
    reports = [make([], group=group, weights=replace(WEIGHTS, sha256=str(group))) for group in range(2)]
    said = throughput.answer(replace(found, runs=tuple(reports)))
    assert ", which cannot be compared with one instance: baseline and candidate ran different weights" in said


def test_a_bound_of_which_nothing_can_be_said_is_no_answer_to_it() -> None:
    """Neither for a lack of batches, of rounds, nor if the rounds differ too much; each says what would decide."""
    bound = LatencyBound(90, 0.11)
    said = throughput.answer(measured(bound))
    assert said.startswith("1 × 1 core, batch 1 is the fastest that may meet p90=110ms, but whether it does cannot be")
    assert "(1 more batch per round would be the least: give --seconds)" in said
    once = result([ONE], [ran(0, ONE, 0, [0.1], duration=20.0)], bound)
    assert "cannot be said (it takes two rounds at least: --rounds)" in throughput.answer(once)
    runs = [ran(0, ONE, number, [0.1 * factor], duration=20.0) for number, factor in enumerate((0.9, 1.0, 1.08))]
    (note,) = [each for each in notes(result([ONE], runs, bound)) if "99 %" in each]
    whether = "1 × 1 core, batch 1: whether it meets the bound cannot be said with 99 % confidence (about "
    assert note.startswith(whether) and note.endswith(" more rounds would probably decide: --rounds)")


@pytest.mark.parametrize(
    ("given", "bound", "options"),
    [
        (
            "--slo p90=1s --instances=1,4 toy --bf16 -oc.json -o 'a b.json'",
            LatencyBound(90, 1.0),
            "--slo p90=1000ms --bf16",
        ),
        ("--bf16 --batch 1,4 toy --option width=8", None, "--bf16 --option width=8"),
    ],
)
def test_the_best_is_a_command_with_the_options_of_the_call(
    given: str, bound: LatencyBound | None, options: str
) -> None:
    """Those that decide the setting, before and after the workload; those of the search are replaced."""
    found = replace(measured(bound), command=tuple(shlex.split(f"modelzoo throughput {given}")))
    best = "modelzoo throughput toy --instances 4 --cores-per-instance 1 --batch 1"
    assert throughput.command(found, "toy") == f"{best} {options}"


def test_a_host_of_a_fleet_gets_a_command_for_itself() -> None:
    """'throughput' accepts it: no option that only 'fleet throughput' has is repeated."""
    known = commands(make_parser())
    fleet, alone = (options(parser) for parser in (commands(known["fleet"])["throughput"], known["throughput"]))
    only = sorted(fleet - alone)
    assert "--json-dir" in only
    given = ["modelzoo", "fleet", "throughput", *(word for name in only for word in (name, "x")), "toy", "--bf16"]
    line = throughput.command(replace(measured(), command=tuple(given)), "toy")
    args = make_parser().parse_args(explicit_values(shlex.split(line)[1:]))
    assert (args.workload, args.instances, args.bf16) == ("toy", (4,), "auto")


def commands(parser: Parser) -> dict[str, Parser]:
    """The parsers of the commands of ``parser``."""
    parser.complete()
    return next(dict(each.choices) for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def options(parser: Parser) -> set[str]:
    """The options of ``parser``, such as ``--json``."""
    parser.complete()
    return set(parser._option_string_actions)


def test_one_round_has_no_intervals() -> None:
    """Not even in ratios; one of two rounds that differ much says no more than that."""
    found = result([ONE, FOUR], [ran(0, ONE, 0, [0.1]), ran(1, FOUR, 0, [0.125] * 4)])
    assert cells(found)["vs 1 instance"] == ("–", "3.20×")
    assert "∞" not in throughput.answer(found)
    assert throughput.rate(Interval(7000.0, 1e-6, 1e13)) == "7000 (noisy)"


def test_what_was_too_short_died_or_was_dropped_is_noted() -> None:
    """A run that was too short to count says so: nothing went wrong in it."""
    short = result([ONE], [ran(0, ONE, 0, [20.0], duration=10.0)])
    assert f"1 × 1 core, batch 1: failed: round 1: {NO_WINDOW}" in notes(short)
    runs = [
        ran(0, ONE, 0, [0.5]),
        ran(1, FOUR, 0, [0.1] * 4),
        ran(1, FOUR, 1, [0.1] * 4, errors={2: "the worker process was ended by SIGKILL"}),
    ]
    said = notes(result([ONE, FOUR], runs, excluded=(Exclusion(0, ExclusionKind.SLOWER),)))
    assert "1 × 1 core, batch 1: one round, so there is no interval" in said
    assert "4 × 1 core, batch 1: failed: instance 2 in round 2: the worker process was ended by SIGKILL" in said
    assert "1 × 1 core, batch 1: slower: 0.05× the throughput of 4 × 1 core, batch 1" in said


def test_memory_elsewhere_is_said_of_the_configuration_that_has_it() -> None:
    """What holds everywhere is said once."""
    run = ran(1, FOUR, 0, [0.1] * 4)
    far = replace(run.instances[3], placement=placement(run.instances[3].place, elsewhere=900_000))
    found = result([ONE, FOUR], [ran(0, ONE, 0, [0.1]), replace(run, instances=(*run.instances[:3], far))])
    where = "placement not verified for 1 of 4 instances: 10 % of its memory was on its node"
    assert f"4 × 1 core, batch 1: {where}" in notes(found)

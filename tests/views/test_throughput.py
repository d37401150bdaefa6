"""What is said about many instances."""

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
from modelzoo.records.throughput import MachinePrice
from modelzoo.results import throughput as results
from modelzoo.results.counting import NO_WINDOW
from modelzoo.stats import Interval
from modelzoo.stats.race import Choice
from modelzoo.views import throughput

ONE, FOUR = configuration(1), configuration(4)


def measured(bound: LatencyBound | None = None, duration: float = 10.0, **changes: object) -> Result:
    """One and four instances in three rounds; four of them take a quarter longer for a batch."""
    runs = []
    for number, factor in enumerate((1.0, 1.01, 0.99)):
        runs += [ran(0, ONE, number, [0.1 * factor], duration=duration)]
        runs += [ran(1, FOUR, number, [0.125 * factor] * 4, duration=duration)]
    return result([ONE, FOUR], runs, bound, **changes)


def cells(found: Result) -> dict[str, tuple[str, ...]]:
    """The table by its headings."""
    return {column.title: column.cells for column in throughput.columns(found, results.rows(found))}


def test_the_table_has_what_is_known_and_no_empty_columns() -> None:
    """Throughput with its interval, counting, latency, scaling; nothing about a bound, ceilings or a price."""
    found = cells(measured())
    assert found["configuration"] == ("1 × 1 core, batch 1", "4 × 1 core, batch 1")
    assert found["rows/s"][1].startswith("32.0 ±")
    assert found["counting"] == ("±1.0 %", "±1.3 %")
    assert found["p50"][0] == "100 ms"
    assert found["vs 1 instance"][0] == "–"
    assert found["vs 1 instance"][1].startswith("3.2")
    assert found["efficiency"][1] in ("80 %", "81 %")
    assert not {"setting", "bound", "cost per million", "compute peak", "bandwidth"} & set(found)


def test_the_answer_names_the_best_under_the_bound() -> None:
    """In one sentence, with its cost."""
    found = measured(LatencyBound(90, 0.11), 15.0, price=MachinePrice(3.6, "USD"))
    said = throughput.answer(found)
    assert said.startswith("1 × 1 core, batch 1 has the highest throughput among those that meet p90=110ms: 10.0")
    assert ", with a p90 latency of 101 ms" in said
    assert "; a million rows cost 100" in said
    assert cells(found)["bound"] == ("met", "not met")
    free = measured()
    said = throughput.answer(free)
    assert said.startswith("4 × 1 core, batch 1 has the highest throughput: 32.0 ±")
    assert "3.200× [3.200, 3.200] the throughput of one instance" in said


def test_without_an_answer_the_reason_is_given() -> None:
    """Nothing meets the bound, or nothing ran."""
    found = measured(LatencyBound(90, 0.01))
    assert throughput.answer(found) == (
        "no configuration is known to meet p90=10ms; the nearest is 1 × 1 core, batch 1 with a p90 of 101 ms"
    )
    found = measured(LatencyBound(99.99, 0.01))
    assert throughput.answer(found) == (
        "no configuration is known to meet p99.99=10ms; most batches took longer in all of them"
    )
    found = result([ONE], [])
    assert throughput.answer(found) == "no configuration could be measured"
    assert throughput.command(found, "toy") is None


def test_the_answer_says_what_its_figure_rests_on() -> None:
    """On the rounds that chose it, which flatter it, or on a confirmation, which is a table of its own."""
    chosen = measured()
    said = throughput.answer(chosen)
    assert "rows/s, which is not confirmed: it comes from the rounds that chose it" in said
    again = [ran(1, FOUR, 3 + number, [0.13] * 4) for number in range(2)]
    planned = Stage(StageKind.CONFIRMATION, (0, 1), 2, None, 3)
    runs = (*chosen.payload.runs, *again, ran(0, ONE, 3, [0.1], errors={0: "ended by SIGKILL"}))
    found = replace(chosen, payload=replace(chosen.payload, runs=runs, stages=(planned,), choice=Choice(1, 1)))
    said = throughput.answer(found)
    assert said.startswith("4 × 1 core, batch 1 has the highest throughput: 30.")
    assert " rows/s, measured again in 2 rounds after the choice, with a median latency of 130 ms" in said
    assert cells(found)["rows/s"][1].startswith("32.0 ±")
    notes = throughput.notes(found, results.rows(found))
    assert "1 × 1 core, batch 1, measured again: failed: instance 0 in round 4: ended by SIGKILL" in notes


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
    chosen = measured()
    again = [
        run
        for number, seconds in enumerate(one)
        for run in (ran(0, ONE, 3 + number, [seconds]), ran(1, FOUR, 3 + number, [0.13] * 4))
    ]
    stages = (Stage(StageKind.CONFIRMATION, (0, 1), 3, None, 3),)
    payload = replace(chosen.payload, runs=(*chosen.payload.runs, *again), stages=stages, choice=Choice(1, 1))
    found = replace(chosen, payload=replace(payload, **{"is_complete": True, **changes}))
    assert throughput.answer(found).endswith(said)


def test_other_weights_are_not_compared_with_one_instance() -> None:
    """The ratio would be of two models."""
    chosen = measured()
    own = [ONE, replace(FOUR, group=1)]
    again = [run for number in (3, 4) for run in (ran(0, ONE, number, [0.1]), ran(1, FOUR, number, [0.13] * 4))]
    stages = (Stage(StageKind.CONFIRMATION, (0, 1), 2, None, 3),)
    payload = replace(
        chosen.payload,
        configurations=tuple(own),
        runs=(*chosen.payload.runs, *again),
        stages=stages,
        choice=Choice(1, 1),
        is_complete=True,
    )
    reports = [make([], group=group, weights=replace(WEIGHTS, sha256=str(group))) for group in range(2)]
    requested = (*chosen.requested, *chosen.requested)
    found = replace(chosen, payload=payload, requested=requested, runs=tuple(reports))
    assert (
        ", which cannot be compared with one instance: baseline and candidate ran different weights"
        in throughput.answer(found)
    )


def test_a_bound_of_which_nothing_can_be_said_is_no_answer_to_it() -> None:
    """Neither for a lack of batches, of rounds, nor if the rounds differ too much; each says what would decide."""
    short = measured(LatencyBound(90, 0.11))
    said = throughput.answer(short)
    assert said.startswith("1 × 1 core, batch 1 is the fastest that may meet p90=110ms, but whether it does cannot be")
    assert "(1 more batch per round would be the least: give --seconds)" in said
    assert cells(short)["bound"] == ("undecided", "not met")
    once = result([ONE], [ran(0, ONE, 0, [0.1], duration=20.0)], LatencyBound(90, 0.11))
    assert "cannot be said (it takes two rounds at least: --rounds)" in throughput.answer(once)
    runs = [ran(0, ONE, number, [0.1 * factor], duration=20.0) for number, factor in enumerate((0.9, 1.0, 1.08))]
    differing = result([ONE], runs, LatencyBound(90, 0.11))
    (note,) = [each for each in throughput.notes(differing, results.rows(differing)) if "99 %" in each]
    assert note.startswith(
        "1 × 1 core, batch 1: whether it meets the bound cannot be said with 99 % confidence (about "
    )
    assert note.endswith(" more rounds would probably decide: --rounds)")


def test_the_best_is_a_command_with_the_options_of_the_call() -> None:
    """Those that decide the setting; those of the search are replaced."""
    given = shlex.split("modelzoo throughput toy --slo p90=1s --instances=1,4 --bf16 -oc.json -o 'a b.json'")
    found = replace(measured(LatencyBound(90, 1.0)), command=tuple(given))
    assert throughput.command(found, "toy") == (
        "modelzoo throughput toy --instances 4 --cores-per-instance 1 --batch 1 --slo p90=1000ms --bf16"
    )


def test_the_workload_need_not_come_first() -> None:
    """Its options may stand before it."""
    given = ("modelzoo", "throughput", "--bf16", "--batch", "1,4", "toy", "--option", "width=8")
    found = replace(measured(), command=given)
    assert throughput.command(found, "toy") == (
        "modelzoo throughput toy --instances 4 --cores-per-instance 1 --batch 1 --bf16 --option width=8"
    )


def test_a_host_of_a_fleet_gets_a_command_for_itself() -> None:
    """'throughput' accepts it: no option that only 'fleet throughput' has is repeated."""
    known = commands(make_parser())
    fleet, alone = (options(parser) for parser in (commands(known["fleet"])["throughput"], known["throughput"]))
    only = sorted(fleet - alone)
    assert "--json-dir" in only
    given = ["modelzoo", "fleet", "throughput", *(word for name in only for word in (name, "x")), "toy", "--bf16"]
    found = replace(measured(), command=tuple(given))
    line = throughput.command(found, "toy")
    assert line is not None
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
    """Not even in ratios."""
    found = result([ONE, FOUR], [ran(0, ONE, 0, [0.1]), ran(1, FOUR, 0, [0.125] * 4)])
    assert cells(found)["vs 1 instance"] == ("–", "3.20×")
    assert "∞" not in throughput.answer(found)


def test_a_run_that_was_too_short_to_count_says_so() -> None:
    """Nothing went wrong in it."""
    found = result([ONE], [ran(0, ONE, 0, [20.0], duration=10.0)])
    (row,) = results.rows(found)
    assert (row.rounds, row.failed) == (0, 1)
    assert f"1 × 1 core, batch 1: failed: round 1: {NO_WINDOW}" in throughput.notes(found, [row])


def test_notes_name_stragglers_the_dead_and_the_short() -> None:
    """And what was dropped, and what else used the CPUs."""
    runs = [
        ran(0, ONE, 0, [0.5]),
        ran(1, FOUR, 0, [0.1, 0.1, 0.1, 0.15]),
        ran(1, FOUR, 1, [0.1] * 4, errors={2: "the worker process was ended by SIGKILL"}),
    ]
    found = result([ONE, FOUR], runs, excluded=(Exclusion(0, ExclusionKind.SLOWER),))
    said = throughput.notes(found, results.rows(found))
    assert "1 × 1 core, batch 1: one round, so there is no interval" in said
    assert any("completed only 20 batches inside the window, fewer than 50" in each for each in said)
    assert any("instance 3 on CPU 3 completed 67 % of the median instance's batches in 1 of 1" in each for each in said)
    assert "4 × 1 core, batch 1: failed: instance 2 in round 2: the worker process was ended by SIGKILL" in said
    assert "1 × 1 core, batch 1: slower: 0.05× the throughput of 4 × 1 core, batch 1" in said


def test_what_holds_everywhere_is_said_once() -> None:
    """A difference is said of the configuration that has it."""
    found = measured()
    everywhere = [each for each in throughput.notes(found, results.rows(found)) if each.startswith("every config")]
    assert everywhere == [
        "every configuration: it is not known which kernels the instances ran",
        "every configuration: every instance ran on its own cores of one NUMA node, with its memory there (verified in "
        "numa_maps)",
    ]
    run = ran(1, FOUR, 0, [0.1] * 4)
    far = replace(run.instances[3], placement=placement(run.instances[3].place, elsewhere=900_000))
    other = result([ONE, FOUR], [ran(0, ONE, 0, [0.1]), replace(run, instances=(*run.instances[:3], far))])
    said = throughput.notes(other, results.rows(other))
    assert (
        "4 × 1 core, batch 1: placement not verified for 1 of 4 instances: 10 % of its memory was on its node" in said
    )


def test_the_caption_names_machine_and_cores() -> None:
    """What the figures are of."""
    said = throughput.caption(measured())
    assert "4 cores, 1 NUMA node." in said
    assert said.startswith("toy on ")


def test_an_interval_that_is_wider_than_its_value_is_only_said_to_be() -> None:
    """Two rounds that differ much have one of a million percent, which says no more than that."""
    assert throughput.rate(Interval(7000.0, 1e-6, 1e13)) == "7000 (noisy)"
    assert throughput.rate(Interval(35.1, 35.0, 35.2)) == "35.10 ±0.3 %"

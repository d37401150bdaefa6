"""What is said about many instances beyond what ``tests/snapshots`` shows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence

import pytest
from fake_runs import WEIGHTS, make
from instances import configuration, placement, ran, result

from modelzoo.cli.app import explicit_values, make_parser
from modelzoo.cli.parser import Parser
from modelzoo.frozen import replace
from modelzoo.records.race import Configuration, ConfigurationRun, Exclusion, ExclusionKind, Stage, StageKind
from modelzoo.records.run import Result
from modelzoo.records.serving import LatencyBound
from modelzoo.results import throughput as results
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


def results_to_be_told() -> dict[str, Result]:
    """What the answers and the notes are about."""
    bound, rounds = LatencyBound(90, 0.11), enumerate((0.9, 1.0, 1.08))
    differing = [ran(0, ONE, number, [0.1 * factor], duration=20.0) for number, factor in rounds]
    dead = ran(0, ONE, 3, [0.1], errors={0: "ended by SIGKILL"})
    died = ran(1, FOUR, 1, [0.1] * 4, errors={2: "the worker process was ended by SIGKILL"})
    dropped = Exclusion(0, ExclusionKind.SLOWER)
    whole = ran(1, FOUR, 0, [0.1] * 4)
    far = replace(whole.instances[3], placement=placement(whole.instances[3].place, elsewhere=900_000))
    others = measured(again=confirming(0.1, 0.1), own=(ONE, replace(FOUR, group=1)))
    reports = [make([], group=group, weights=replace(WEIGHTS, sha256=str(group))) for group in range(2)]
    return {
        "no bound": measured(),
        "over the bound": measured(LatencyBound(90, 0.01)),
        "over the bound, by few samples": measured(LatencyBound(99.99, 0.01)),
        "nothing ran": result([ONE], []),
        "too few batches": measured(bound),
        "too few rounds": result([ONE], differing[:1], bound),
        "rounds that differ": result([ONE], differing, bound),
        "confirmed": measured(again=confirming(0.1, 0.1, 0.1)),
        "confirmed, and not faster": measured(again=confirming(0.02, 0.06, 0.03)),
        "interrupted in the confirmation": measured(again=confirming(0.1, 0.1, 0.1), is_complete=False),
        "died in the confirmation": measured(again=[dead, *(ran(1, FOUR, 3 + n, [0.13] * 4) for n in range(2))]),
        "other weights": replace(others, runs=tuple(reports)),
        "too short": result([ONE], [ran(0, ONE, 0, [20.0], duration=10.0)]),
        "died and dropped": result([ONE, FOUR], [ran(0, ONE, 0, [0.5]), whole, died], excluded=(dropped,)),
        "memory elsewhere": result([FOUR], [replace(whole, configuration=0, instances=(*whole.instances[:3], far))]),
    }


def test_answers_and_notes(approved: Callable[[str, str], None]) -> None:
    """What was chosen by its own rounds is not confirmed; what cannot be said is not claimed; what would decide it."""
    said = []
    for name, found in results_to_be_told().items():
        said += [f"{name}: {throughput.answer(found)}", *(f"  {note}" for note in notes(found))]
    approved("said/instances.txt", "".join(f"{each}\n" for each in said))


def test_the_table_has_the_efficiency_and_no_interval_of_one_round() -> None:
    """One of two rounds that differ much says no more than that."""
    assert cells(measured())["efficiency"][1] in ("80 %", "81 %")
    assert not {"setting", "bound", "cost per million", "compute peak", "bandwidth"} & set(cells(measured()))
    found = result([ONE, FOUR], [ran(0, ONE, 0, [0.1]), ran(1, FOUR, 0, [0.125] * 4)])
    assert cells(found)["vs 1 instance"] == ("–", "3.20×")
    assert "∞" not in throughput.answer(found)
    assert throughput.rate(Interval(7000.0, 1e-6, 1e13)) == "7000 (noisy)"


@pytest.mark.parametrize(
    ("given", "bound", "options"),
    [
        ("--slo p90=1s --instances=1,4 toy --bf16 -oc.json -o 'a b'", LatencyBound(90, 1.0), "--slo p90=1000ms --bf16"),
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
    assert throughput.command(result([ONE], []), "toy") is None


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

"""Under which circumstances a result was measured."""

from __future__ import annotations

from fake_runs import MACHINE, WEIGHTS, make, result_of, shown

from modelzoo.document import Command, Details, Lines, Table, lines
from modelzoo.frozen import replace
from modelzoo.records.run import EnvironmentChanges, Latency, Result
from modelzoo.records.timing import Design, StopReason
from modelzoo.records.workload import Verification, WeightsKind
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.page import circumstances


def test_what_differs_between_processes_is_named() -> None:
    """The clock of the moment does not count."""
    other = replace(MACHINE, huge_pages="always", mhz=2000.0)
    facts, said = circumstances.machine(result_of(make([1.0]), make([1.0], round=1, machine=other)))
    assert isinstance(facts, Lines)
    assert ("CPU", "Neoverse-N2") in [(fact.name, str(fact.text)) for fact in facts.items]
    assert said == lines("Not the same in all processes (shown: of the first one): huge pages.")
    nothing = circumstances.machine(result_of(make(None, error="died")))
    assert nothing == []


def test_settings_name_weights_inputs_variables_and_switches() -> None:
    """As they ran; a setting that never ran has only what was asked for."""
    changes = EnvironmentChanges({"A_B": "1"}, {"OMP_NUM_THREADS": "4"})
    result = result_of(
        make([1.0], inputs_digest="0123456789abcdef", environment=changes, switches=("deterministic",)),
        make(None, setting=Setting(batch=3), group=1, error="died"),
    )
    [table] = circumstances.settings(summary.rows(result))
    assert isinstance(table, Table)
    first, second = table.rows
    assert first[2:4] == ("4", "1")
    assert first[-4:] == ("random: seed 0, abc", "0123456789ab", "OMP_NUM_THREADS=4\nwithout A_B", "deterministic")
    assert second[2:4] == ("3", "–")
    assert circumstances.settings([]) == []


def test_weights_are_given_with_how_far_they_were_verified() -> None:
    """Pretrained ones, after their name and digest."""
    trained = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, name="toy")
    runs = [
        make([1.0], weights=replace(trained, verification=each), setting=Setting(batch=i + 1), group=i)
        for i, each in enumerate(Verification)
    ]
    [table] = circumstances.settings(shown(*runs))
    assert isinstance(table, Table)
    assert [row[7] for row in table.rows] == [
        "pretrained: toy, abc, verified",
        "pretrained: toy, abc, partly verified",
        "pretrained: toy, abc, unverified",
    ]


def test_the_plan_says_how_it_ended() -> None:
    """Rounds, processes, seconds, and why there were no more."""
    result = result_of(*(make([0.5, 0.5], round=i) for i in range(3)))
    result = replace(result, payload=Latency((Design("toy", 0.05, stop_reason=StopReason.PRECISE),)))
    [table] = circumstances.plan(result, summary.rows(result))
    assert isinstance(table, Table)
    assert table.rows == [("toy", "3", "3", "1.000 s", "±5.0 %", "the intervals were narrow enough")]


def test_the_command_can_be_typed() -> None:
    """Whatever started the program; with version and commit."""
    result = Result(("/x/modelzoo/__main__.py", "run", "a b"), "2026-01-01", commit="abc")
    said, command = circumstances.command(result)
    assert command == Command("modelzoo run 'a b'")
    assert "commit abc." in str(said)
    assert circumstances.command(Result(("performance.py", "--bf16"), ""))[1] == Command("performance.py --bf16")
    assert circumstances.command(Result((), ""))[1] == Command("modelzoo")


def test_versions_are_listed_if_they_were_recorded() -> None:
    """In alphabetical order."""
    [found] = circumstances.build(result_of(make([1.0], versions={"torch": "2.10.0", "numpy": "2.2"})))
    assert isinstance(found, Details)
    [facts] = found.blocks
    assert isinstance(facts, Lines)
    assert [fact.name for fact in facts.items] == ["numpy", "torch"]
    assert circumstances.build(result_of(make([1.0]))) == []

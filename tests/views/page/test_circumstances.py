"""Under which circumstances a result was measured."""

from __future__ import annotations

import pytest
from fake_runs import MACHINE, WEIGHTS, make, result_of
from printed import cells, printed

from modelzoo.document import Command
from modelzoo.frozen import replace
from modelzoo.records.run import EnvironmentChanges, Result
from modelzoo.records.workload import Verification, WeightsKind
from modelzoo.results import summary
from modelzoo.setting import Setting
from modelzoo.views.page import circumstances


def test_what_differs_between_processes_is_named() -> None:
    """The clock of the moment does not count."""
    other = replace(MACHINE, huge_pages="always", mhz=2000.0)
    text = printed(circumstances.machine(result_of(make([1.0]), make([1.0], round=1, machine=other))))
    assert text.startswith("CPU: Neoverse-N2\n")
    assert text.endswith("\nNot the same in all processes (shown: of the first one): huge pages.\n")
    assert circumstances.machine(result_of(make(None, error="died"))) == []


def test_settings_name_weights_inputs_variables_and_switches() -> None:
    """As they ran; a setting that never ran has only what was asked for."""
    changes = EnvironmentChanges({"A_B": "1"}, {"OMP_NUM_THREADS": "4"})
    trained = replace(WEIGHTS, kind=WeightsKind.PRETRAINED, name="toy", verification=Verification.PARTIAL)
    result = result_of(
        make([1.0], inputs_digest="0123456789abcdef", environment=changes, switches=("deterministic",)),
        make([1.0], weights=trained, setting=Setting(batch=2)),
        make(None, setting=Setting(batch=3), error="died"),
    )
    [table] = circumstances.settings(summary.rows(result))
    found = cells(table)
    assert (found["batch"], found["threads"]) == (("4", "2", "3"), ("1", "1", "–"))
    assert found["weights"] == ("random: seed 0, abc", "pretrained: toy, abc, partly verified", "–")
    assert found["variables"] == ("OMP_NUM_THREADS=4\nwithout A_B", "–", "–")
    assert (found["inputs"][0], found["switches"][0]) == ("0123456789ab", "deterministic")


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (("/x/modelzoo/__main__.py", "run", "a b"), "modelzoo run 'a b'"),
        ((), "modelzoo"),
    ],
)
def test_the_command_can_be_typed(given: tuple[str, ...], typed: str) -> None:
    """Whatever started the program; with version and commit."""
    said, command = circumstances.command(Result(given, "2026-01-01", commit="abc"))
    assert command == Command(typed)
    assert "commit abc." in str(said)

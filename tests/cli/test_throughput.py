"""``modelzoo throughput`` through its command line, with instances that are simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from example_machine import SERVER
from instances import ran
from topologies import topology
from toy_workloads import MLP

from modelzoo import cli
from modelzoo.cli.measuring import Instances
from modelzoo.cli.throughput import splits
from modelzoo.errors import UsageError
from modelzoo.machine import cpu as machine_topology
from modelzoo.machine import facts
from modelzoo.records.protocol import Preparation
from modelzoo.records.throughput import ConfigurationRun
from modelzoo.results import store
from modelzoo.results import throughput as results
from modelzoo.serve import configurations as search
from modelzoo.serve.round import RoundResult, Task


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[ConfigurationRun]:
    """Four cores on which more instances have more throughput; the rounds that ran."""
    seen: list[ConfigurationRun] = []

    def run(task: Task, on_event: Any) -> RoundResult:
        own = task.configuration
        seconds = 0.02 * own.batch * (1 + 0.1 * own.instances) / own.cores**0.5
        seen.append(ran(task.index, own, task.number, [seconds] * own.instances))
        return seen[-1], None

    monkeypatch.setattr(facts, "read_machine", lambda: SERVER)
    monkeypatch.setattr(machine_topology, "read_topology", lambda: topology(4))
    monkeypatch.setattr(search, "run_configuration", run)
    monkeypatch.setattr(search, "prepare", lambda request, on_event: tuple(Preparation() for _ in request.settings))
    return seen


def call(path: Path, *words: str) -> int:
    """``modelzoo throughput examples/mlp`` in this process."""
    return cli.main(["throughput", str(MLP), "--weights", "random", "--json", str(path), *words])


def test_configurations_are_measured_stored_and_shown(
    rounds: list[ConfigurationRun], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table, the answer, the command, the plot; ``report`` shows the same again."""
    path = tmp_path / "r.json"
    assert call(path, "--instances", "1,4", "--batch", "1,2", "--rounds", "2", "--slo", "p90=40ms") == 0
    assert len(rounds) == 8 + 4, "the best one and its baseline are measured again"
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "4 × 1 core, batch 1 has the highest throughput among those that meet p90=40ms" in shown.err
    assert "measured again in 2 rounds after the choice" in " ".join(shown.err.split())
    assert f"command: modelzoo throughput {MLP} --instances 4 --cores-per-instance 1 --batch 1" in shown.err
    assert f"plot: {tmp_path / 'r.svg'}" in shown.err
    found = results.of(store.read(path))
    assert found.is_complete
    assert not found.is_search
    assert [each.name for each in found.configurations] == [
        "1 × 4 cores, batch 1",
        "4 × 1 core, batch 1",
        "1 × 4 cores, batch 2",
        "4 × 1 core, batch 2",
    ]
    assert cli.main(["report", str(path)]) == 0
    assert "4 × 1 core, batch 1 has the highest throughput" in capsys.readouterr().out
    assert cli.main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0


def test_a_search_is_the_default(rounds: list[ConfigurationRun], tmp_path: Path) -> None:
    """With the splits that use the whole machine."""
    path = tmp_path / "r.json"
    assert call(path, "--rounds", "1", "--plot", str(tmp_path / "p.svg"), "--price", "1.5") == 0
    found = results.of(store.read(path))
    assert found.is_search
    assert [(each.instances, each.cores) for each in found.configurations] == [(1, 4), (2, 2), (4, 1)]
    assert found.price is not None
    assert (tmp_path / "p.svg").is_file()


@pytest.mark.parametrize(
    ("cores", "words", "reason"),
    [
        (4, ["--instances", "2", "--cores-per-instance", "1"], "2 × 1 leaves 2 cores idle: no more instances were"),
        (5, ["--cores-per-instance", "2"], "2 × 2 leaves 1 core idle: whole instances of 2 do not fill 5 cores"),
        (5, ["--instances", "5"], ""),
    ],
)
@pytest.mark.usefixtures("rounds")
def test_a_plan_says_why_cores_are_idle(
    cores: int, words: list[str], reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or nothing, if none is."""
    monkeypatch.setattr(machine_topology, "read_topology", lambda: topology(cores))
    assert cli.main(["throughput", str(MLP), "--dry-run", *words]) == 0
    shown = capsys.readouterr().out
    assert reason in shown
    assert ("idle: " in shown) is bool(reason)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--threads", "2"], "--threads follows from the cores of an instance"),
        (["--device", "cuda"], "--device cuda is not supported"),
        (["--include-copies"], "--include-copies is for accelerators"),
        (["--rounds", "0"], "--rounds must be 1 or more, not 0"),
        (["--instances", "5"], "5 × 1 core: the NUMA nodes have room for only 4 instances of 1 core ("),
        (["--instances", "1", "--cores-per-instance", "8"], "no NUMA node has more than 4 cores"),
        (["--smt", "on"], "--smt on: these cores have no second hardware thread"),
        (["--instances", "0"], "is not a list of whole numbers over 0, such as 1,2,4"),
        (["--slo", "50ms"], "write a percentile and a time, such as p99=50ms"),
        (["--price", "free"], "--price must be a price per hour over 0, or @FILE, not 'free'"),
        (["--batch", "1,x"], "is not a list of whole numbers"),
    ],
)
@pytest.mark.usefixtures("rounds")
def test_impossible_calls_are_refused_in_one_line(
    words: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is started, with exit code 2."""
    try:
        code = call(tmp_path / "r.json", *words)
    except SystemExit as ended:  # argparse
        code = int(ended.code or 0)
    assert code == 2
    assert error in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()


def test_splits_follow_what_is_given() -> None:
    """Instances, cores, both or none of them, for every batch."""
    machine = topology(4, 4)

    def found(instances: Any, cores: Any, batches: tuple[int, ...] = (1,)) -> list[tuple[int, int, int]]:
        return splits(Instances(instances, cores), machine, batches)

    assert found((1, 2, 8), None) == [(1, 4, 1), (2, 4, 1), (8, 1, 1)]
    assert found(None, (2, 4)) == [(4, 2, 1), (2, 4, 1)]
    assert found((1, 2), (1,), (1, 8)) == [(1, 1, 1), (2, 1, 1), (1, 1, 8), (2, 1, 8)]
    assert found(None, None) == [(1, 4, 1), (2, 4, 1), (4, 2, 1), (8, 1, 1)]
    with pytest.raises(UsageError, match="these are 80 configurations, and 64 are the most"):
        found(tuple(range(1, 9)), (1,), tuple(range(1, 11)))


def test_an_interrupted_call_keeps_what_was_finished(
    rounds: list[ConfigurationRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 130, and the table of the finished rounds."""
    before = search.run_configuration

    def interrupted(task: Task, on_event: Any) -> RoundResult:
        if len(rounds) == 3:
            raise KeyboardInterrupt
        return before(task, on_event)

    monkeypatch.setattr(search, "run_configuration", interrupted)
    assert call(tmp_path / "r.json", "--instances", "1,4", "--rounds", "4") == 130
    assert "interrupted; 3 finished rounds" in capsys.readouterr().err
    assert not results.of(store.read(tmp_path / "r.json")).is_complete

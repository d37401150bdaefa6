"""``modelzoo throughput`` through its command line, with instances that are simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from calls import Call, called
from example_machine import SERVER, machine_with
from instances import ran
from planted import topology
from toy_workloads import MLP

from modelzoo.machine import facts
from modelzoo.records.protocol import Preparation
from modelzoo.records.race import ConfigurationRun
from modelzoo.results import store
from modelzoo.results import throughput as results
from modelzoo.serve import configurations as search
from modelzoo.serve.configurations import RoundResult, Task

FROM_1_TO_30 = ",".join(map(str, range(1, 31)))


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
    monkeypatch.setattr(facts, "read_topology", lambda: topology(4))
    monkeypatch.setattr(Task, "run", run)
    monkeypatch.setattr(search, "prepare", lambda request, on_event: tuple(Preparation() for _ in request.settings))
    return seen


def measure(path: Path, *words: object) -> Call:
    return called("throughput", MLP, "--weights", "random", "--json", path, *words)


def test_configurations_are_measured_stored_and_shown(rounds: list[ConfigurationRun], tmp_path: Path) -> None:
    """The table, the answer, the command, the plot; ``report`` shows the same again."""
    path = tmp_path / "r.json"
    words = ("--instances", "1,4", "--batch", "1,2", "--rounds", "2", "--slo", "p90=40ms", "--price", "1.5")
    code, out, err = measure(path, *words)
    assert (code, out) == (0, "")
    assert len(rounds) == 8 + 4, "the best one and its baseline are measured again"
    assert "4 × 1 core, batch 1 has the highest throughput among those that meet p90=40ms" in err
    assert "measured again in 2 rounds after the choice" in " ".join(err.split())
    assert f"command: modelzoo throughput {MLP} --instances 4 --cores-per-instance 1 --batch 1" in err
    assert f"plot: {tmp_path / 'r.svg'}" in err
    found = results.of(store.read(path))
    assert found.is_complete
    assert not found.is_search
    assert found.price.per_hour == 1.5
    names = [each.name for each in found.configurations]
    assert names == [f"{split}, batch {batch}" for batch in (1, 2) for split in ("1 × 4 cores", "4 × 1 core")]
    assert "4 × 1 core, batch 1 has the highest throughput" in called("report", path).out
    assert called("report", path, "-o", tmp_path / "page.html").code == 0


@pytest.mark.usefixtures("rounds")
def test_a_plan_says_why_cores_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """More reasons are in the snapshots."""
    for cores, words, reason in (
        (4, "--instances 2 --cores-per-instance 1", "2 × 1 leaves 2 cores idle: no more instances were"),
        (5, "--cores-per-instance 2", "2 × 2 leaves 1 core idle: whole instances of 2 do not fill 5 cores"),
    ):
        monkeypatch.setattr(facts, "read_topology", lambda cores=cores: topology(cores))
        assert reason in called("throughput", MLP, "--dry-run", *words.split()).out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--instances 5", "5 × 1 core: the NUMA nodes have room for only 4 instances of 1 core ("),
        ("--instances 1 --cores-per-instance 8", "no NUMA node has more than 4 cores"),
        ("--smt on", "--smt on: these cores have no second hardware thread"),
        (f"--instances 1,2,4 --batch {FROM_1_TO_30}", "these are 90 configurations, and 64 are the most"),
    ],
)
@pytest.mark.usefixtures("rounds")
def test_what_does_not_fit_into_this_machine_is_refused(words: str, error: str, tmp_path: Path) -> None:
    """Before anything is started."""
    code, _, err = measure(tmp_path / "r.json", *words.split())
    assert code == 2
    assert error in err
    assert not (tmp_path / "r.json").exists()


@pytest.mark.usefixtures("rounds")
def test_nothing_is_timed_under_an_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its times are not those of the machine that it imitates."""
    monkeypatch.setattr(facts, "read_machine", lambda: machine_with(emulator="qemu"))
    assert "nothing can be timed under qemu" in measure(tmp_path / "r.json").err


@pytest.mark.usefixtures("rounds")
def test_the_plot_has_the_name_that_it_was_given(tmp_path: Path) -> None:
    """An error about it names the option."""
    words = ("--instances", "1,4", "--rounds", "1", "--plot")
    assert f"plot: {tmp_path / 'p.svg'}" in measure(tmp_path / "r.json", *words, tmp_path / "p.svg").err
    code, _, err = measure(tmp_path / "r.json", *words, tmp_path / "missing" / "p.svg")
    assert code == 2
    assert f"cannot write {tmp_path / 'missing' / 'p.svg'}: No such file" in err
    assert "name another file with --plot FILE" in err


def test_an_interrupted_call_keeps_what_was_finished(
    rounds: list[ConfigurationRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 130, and the table of the finished rounds."""
    before = Task.run

    def interrupted(task: Task, on_event: Any) -> RoundResult:
        if len(rounds) == 3:
            raise KeyboardInterrupt
        return before(task, on_event)

    monkeypatch.setattr(Task, "run", interrupted)
    code, _, err = measure(tmp_path / "r.json", "--instances", "1,4", "--rounds", "4")
    assert code == 130
    assert "interrupted; 3 finished rounds" in err
    assert not results.of(store.read(tmp_path / "r.json")).is_complete

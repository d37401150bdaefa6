"""``modelzoo fleet`` under torchrun: three agents on loopback, members that are killed, and a fleet of one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from fleet_members import free_port
from places import ROOT
from validity import toys

from modelzoo.cli import main
from modelzoo.results import store

HOSTS = 3
SECONDS = 240
"""An upper limit for tests that would otherwise wait for ever."""

READER = """
from modelzoo.validity import Answers
from modelzoo.workload import Inputs, Workload

def build(options):
    import torch

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(2000, 16)
            self.out = torch.nn.Linear(16, 2)

        def forward(self, ids, mask, types):
            found = 8 * self.out(self.embedding(ids))
            return found[..., 0], found[..., 1]

    return Reader()

def tokenizer(path):
    # Every process must have the same words, and training a tokenizer does not always find the same ones.
    import re
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast
    from modelzoo.validity import squad

    texts = [text for question in squad.read(squad.BUILTIN) for text in (question.context, question.question)]
    words = sorted({word for text in texts for word in re.findall(r"\\w+|[^\\w\\s]", text.lower())})
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words][:2000]
    made = BertWordPieceTokenizer(vocab={word: number for number, word in enumerate(known)}, lowercase=True)
    return BertTokenizerFast(tokenizer_object=made._tokenizer, do_lower_case=True)

def inputs(request):
    import torch
    rows = torch.zeros(request.batch, 96, dtype=torch.long)
    return Inputs((rows, rows, rows), ("nothing",) * request.batch)

WORKLOAD = Workload(
    name="reader", title="a reader without attention", unit="questions", build=build, inputs=inputs, batch=4,
    judge=lambda options: Answers(tokenizer, max_length=96, stride=32),
)
"""

DETECTOR = """
import time
from modelzoo.validity import Detection
from modelzoo.workload import Inputs, Workload

def build(options):
    import torch

    class Detector(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Linear(1, 1, bias=False)

        def forward(self, pictures):
            return [self.shift(picture.reshape(1, 1)) for picture in pictures]

    return Detector()

def preprocess(picture):
    import torch
    time.sleep(0.05)
    return torch.tensor([picture.size[0] / 8 % 5])

def detections(output, sizes):
    from validity import toys
    return toys.squares([found.float().reshape(()) for found in output], sizes)

def inputs(request):
    import torch
    return Inputs(([torch.ones(1)] * request.batch,), ("nothing",) * request.batch)

WORKLOAD = Workload(
    name="detector", title="a detector of squares", unit="pictures", build=build, inputs=inputs, batch=2,
    judge=lambda options: Detection(
        preprocess, lambda: {1: (1, "square"), 2: (2, "quadrangle")}, detections=detections, masks=True
    ),
)
"""


@pytest.fixture(autouse=True)
def _workers_find_the_toys(numpy_engine: None) -> None:
    """The workloads of these tests import from ``tests``."""


def workload(folder: Path, text: str) -> tuple[Path, Path]:
    """A workload with the weights that it begins with; its directory and the checkpoint."""
    import torch

    folder.mkdir(parents=True)
    (folder / "workload.py").write_text(text)
    from modelzoo.workload.discovery import load_workload

    torch.manual_seed(0)
    torch.save(load_workload(folder).build({}).state_dict(), folder / "weights.pth")
    return folder, folder / "weights.pth"


def squad(path: Path) -> Path:
    """The built-in questions as a SQuAD file of the user's own."""
    from modelzoo.validity.squad import BUILTIN

    path.write_bytes(BUILTIN.read_bytes())
    return path


def coco(folder: Path, count: int = 60) -> Path:
    """Pictures of squares with COCO annotations."""
    toys.write_annotations(folder, [(200 + 8 * number, 160) for number in range(count)])
    return folder / "instances_val.json"


class Fleet:
    """torchrun on every host, each with a disk of its own; leaving the block ends all of it."""

    def __init__(self, folder: Path, words: Sequence[str], *, port: int, restarts: int = 0, name: str = "") -> None:
        self.folder = folder
        self._agents = []
        for rank in range(HOSTS):
            options = ["--nnodes", str(HOSTS), "--node-rank", str(rank), "--nproc-per-node", "1"]
            options += ["--master-addr", "127.0.0.1", "--master-port", str(port), "--max-restarts", str(restarts)]
            own = ["--shards-dir", str(self.disk(rank)), "--artifacts", str(folder / f"output-{rank}")]
            command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "modelzoo", *words, *own]
            log = (folder / f"log{name}-{rank}.txt").open("wb")
            self._agents.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=os.environ, start_new_session=True)
            )
            log.close()
        self._name = name

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *problem: object) -> None:
        for agent in self._agents:
            self._kill(agent)

    def disk(self, rank: int) -> Path:
        """The finished shards of a host."""
        return self.folder / f"shards-{rank}"

    def log(self, rank: int) -> str:
        """What a host printed."""
        return (self.folder / f"log{self._name}-{rank}.txt").read_text(errors="replace")

    def wait(self) -> list[int]:
        """The exit code of torchrun on every host, after the last has ended."""
        return [agent.wait(SECONDS) for agent in self._agents]

    def kill_member(self, rank: int) -> None:
        """Kill the process that torchrun started."""
        members = [
            child for child in psutil.Process(self._agents[rank].pid).children() if "fleet" in " ".join(child.cmdline())
        ]
        members[0].send_signal(signal.SIGKILL)

    def kill_host(self, rank: int) -> None:
        """Kill torchrun and all that it started."""
        self._kill(self._agents[rank])

    def interrupt(self) -> None:
        """Press Ctrl-C on every host."""
        for agent in self._agents:
            agent.send_signal(signal.SIGINT)

    @staticmethod
    def _kill(agent: subprocess.Popen[bytes]) -> None:
        try:
            tree = [psutil.Process(agent.pid), *psutil.Process(agent.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            tree = []
        for process in tree:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        agent.wait(SECONDS)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def shards_in(disk: Path) -> int:
    """Number of finished shards on a disk."""
    return len(list(disk.glob("[!.]*.json")))


def alone(words: Sequence[str], path: Path) -> object:
    """The judgement of ``modelzoo validate`` in one process."""
    called = [sys.executable, "-m", "modelzoo", "validate", *words, "--json", str(path)]
    subprocess.run(
        [*called, "--artifacts", str(path.with_suffix(""))], cwd=ROOT, env=os.environ, check=False, capture_output=True
    )
    (entry,) = store.read(path).validity
    assert entry.report is not None, entry.error
    return entry.report.validity


@pytest.fixture
def detector(tmp_path: Path) -> Iterator[list[str]]:
    """The words that judge the detector on pictures of squares."""
    folder, weights = workload(tmp_path / "detector", DETECTOR)
    data = coco(tmp_path / "squares")
    yield [str(folder), "--data", str(data), "--weights", str(weights), "--threads", "1", "--bf16=cast"]


@pytest.mark.slow
def test_three_hosts_judge_as_one_process_does_although_a_member_is_killed(tmp_path: Path, detector: list[str]) -> None:
    """torchrun restarts it; AP is that of one process to the last digit, and every picture counts once."""
    result = tmp_path / "fleet.json"
    words = ["fleet", "validate", *detector, "--shard-items", "4", "--json", str(result)]
    with Fleet(tmp_path, words, port=free_port(), restarts=2) as fleet:
        until(lambda: shards_in(fleet.disk(1)) >= 1)
        fleet.kill_member(1)
        codes = fleet.wait()
        logs = "\n".join(fleet.log(rank) for rank in range(HOSTS))
    stored = store.read(result)
    (report,) = stored.sharding
    (entry,) = stored.validity
    assert entry.report is not None, logs
    assert entry.report.validity == alone(detector, tmp_path / "alone.json")
    assert codes == [entry.exit_code] + [0] * (HOSTS - 1), logs
    assert (report.items, report.shards) == (60, 15)
    assert "torchrun has restarted it" in {host.problem for host in report.hosts}
    judged = sum(host.items for host in report.hosts)
    assert judged + 4 * report.reused == 60 + report.judged_twice, logs


@pytest.mark.slow
def test_another_call_goes_on_after_an_interruption(tmp_path: Path, detector: list[str]) -> None:
    """Every host says what it has kept; no finished shard is judged again, and no worker is left behind."""
    result = tmp_path / "fleet.json"
    words = ["fleet", "validate", *detector, "--shard-items", "4", "--json", str(result)]
    with Fleet(tmp_path, words, port=free_port()) as fleet:
        until(lambda: all(shards_in(fleet.disk(rank)) >= 1 for rank in range(HOSTS)))
        fleet.interrupt()
        assert all(fleet.wait())
        logs = [fleet.log(rank) for rank in range(HOSTS)]
    assert all("modelzoo: interrupted; finished shards are kept in" in log for log in logs), logs
    left = [process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])]
    assert not left
    kept = {path.name for rank in range(HOSTS) for path in (tmp_path / f"shards-{rank}").glob("[!.]*.json")}
    with Fleet(tmp_path, words, port=free_port(), name="-again") as fleet:
        fleet.wait()
    (report,) = store.read(result).sharding
    assert report.reused == len(kept)
    assert sum(host.items for host in report.hosts) == 60 - 4 * len(kept)


@pytest.mark.slow
def test_another_call_goes_on_after_the_host_of_the_store_was_killed(tmp_path: Path, detector: list[str]) -> None:
    """The other hosts end with one line; no finished shard is judged again."""
    result = tmp_path / "fleet.json"
    words = ["fleet", "validate", *detector, "--shard-items", "4", "--json", str(result)]
    with Fleet(tmp_path, words, port=free_port()) as fleet:
        until(lambda: all(shards_in(fleet.disk(rank)) >= 1 for rank in (1, 2)))
        fleet.kill_host(0)
        assert all(fleet.wait()[1:])
        line = "modelzoo: error: the host of the store, 127.0.0.1:"
        lost = [text for rank in (1, 2) for text in fleet.log(rank).splitlines() if line in text]
    assert len(lost) == 2
    assert all("finished shards are kept in" in text and "run the same command again" in text for text in lost)
    kept = {path.name for rank in range(HOSTS) for path in (tmp_path / f"shards-{rank}").glob("[!.]*.json")}
    with Fleet(tmp_path, words, port=free_port(), name="-again") as fleet:
        fleet.wait()
        logs = "\n".join(fleet.log(rank) for rank in range(HOSTS))
    stored = store.read(result)
    assert stored.sharding, logs
    assert stored.sharding[0].reused == len(kept)
    assert sum(host.items for host in stored.sharding[0].hosts) == 60 - 4 * len(kept)
    assert stored.validity[0].report is not None
    assert stored.validity[0].report.validity == alone(detector, tmp_path / "alone.json")


@pytest.mark.slow
def test_three_hosts_answer_questions_as_one_process_does(tmp_path: Path) -> None:
    """Exact match, F1, their intervals and every table; two shards are judged twice and do not differ."""
    folder, weights = workload(tmp_path / "reader", READER)
    data, result = squad(tmp_path / "questions.json"), tmp_path / "fleet.json"
    words = [str(folder), "--data", str(data), "--weights", str(weights), "--threads", "1", "--bf16"]
    call = ["fleet", "validate", *words, "--shard-items", "5", "--recheck", "2", "--json", str(result)]
    with Fleet(tmp_path, call, port=free_port()) as fleet:
        fleet.wait()
        logs = "\n".join(fleet.log(rank) for rank in range(HOSTS))
    stored = store.read(result)
    assert stored.sharding, logs
    assert stored.sharding[0].judged_twice > 0
    assert stored.sharding[0].differing == 0
    assert stored.validity[0].report is not None
    assert stored.validity[0].report.validity == alone(words, tmp_path / "alone.json")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "throughput"])
def test_hosts_that_measured_the_same_are_compared(tmp_path: Path, command: str) -> None:
    """Three agents on one machine: every result arrives, and the comparison says what it rests on."""
    folder, weights = workload(tmp_path / "detector", DETECTOR)
    words = ["fleet", command, str(folder), "--weights", str(weights), "--warmup", "1", "--no-audit"]
    if command == "run":
        words += ["--precision", "fp32", "--threads", "1", "--processes", "2", "--iterations", "5"]
    else:
        words += ["--instances", "1", "--cores-per-instance", "1", "--rounds", "2", "--seconds", "1s"]
    port, agents = free_port(), []
    for rank in range(HOSTS):
        options = ["--nnodes", str(HOSTS), "--node-rank", str(rank), "--nproc-per-node", "1"]
        options += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
        own = ["--json-dir", str(tmp_path / f"results-{rank}")]
        called = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "modelzoo", *words, *own]
        agents.append(subprocess.Popen(called, cwd=ROOT, env=os.environ, stderr=subprocess.PIPE))
    printed = [agent.communicate(timeout=SECONDS)[1].decode() for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * HOSTS, printed[0]
    found = json.loads((tmp_path / "results-0" / "fleet.json").read_text())
    assert [host["rank"] for host in found["hosts"]] == [0, 1, 2]
    assert all(store.read(Path(host["result"])).runs for host in found["hosts"])
    assert [len(kind["hosts"]) for kind in found["kinds"]] == [HOSTS]
    assert "standard deviation" in printed[0]
    assert ("3 hosts together: " in printed[0]) == (command == "throughput")


def test_the_help_offers_nothing_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Sessions and traces are for one host."""
    texts = []
    for words in (["run", "--help-all"], ["fleet", "run", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        texts.append(capsys.readouterr().out)
    for name in ("--sessions", "--every", "--trace"):
        assert [name in text for text in texts] == [True, False]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["validate", "resnet50", "--shards-dir", "x"], "name it with --data PATH"),
        (["validate", "resnet50", "--data", ".", "--shards-dir", "x", "--recheck", "-1"], "0 or more, not -1"),
        (["validate", "resnet50", "--data", ".", "--shards-dir", "/proc/none"], "name another --shards-dir DIR"),
        (["validate", "resnet50", "--data", ".", "--shards-dir", "."], "must be started by torchrun on every host"),
        (["throughput", "resnet50", "--json", "x"], "with --json-dir DIR"),
        (["run", "resnet50", "--sessions", "2"], "are for one host"),
        (["run", "resnet50"], "must be started by torchrun on every host"),
    ],
)
def test_wrong_calls_end_with_one_line(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert main(["fleet", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line

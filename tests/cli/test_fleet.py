"""``modelzoo fleet`` on a Dask cluster of local workers, some of which are killed."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT
from programs import SECONDS, DaskCluster, call, processes_with, started, until
from toy_workloads import NUMPY_ENGINE, judging_words, odd_numpy

from modelzoo.results import store

PICTURES = 40
SLEEPY = "import time; return lambda rows, weight: (time.sleep(float(os.environ['TOY_SECONDS'])), rows @ weight)[1]"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A cluster that all tests of this module use; each brings back what it killed."""
    folder = tmp_path_factory.mktemp("cluster")
    with pytest.MonkeyPatch.context() as patch, started(folder) as found:
        patch.setenv("PYTHONPATH", str(ROOT / "tests"))
        patch.setenv("MODELZOO_CACHE", str(folder / "cache"))
        patch.setenv("MODELZOO_OFFLINE", "1")
        patch.setenv("TOY_SECONDS", "0.02")
        found.ensure()
        yield found


@pytest.fixture
def hosts(cluster: DaskCluster, numpy_engine: None) -> DaskCluster:
    cluster.ensure()
    return cluster


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What judges a classifier on 40 pictures, each of which takes a while."""
    found = judging_words(tmp_path_factory.mktemp("judged"), PICTURES)
    declaration = Path(found[0]) / "workload.py"
    declaration.write_text(
        declaration.read_text().replace("    import torch\n", "    import time, torch\n    time.sleep(0.05)\n")
    )
    return found


@pytest.fixture(scope="module")
def alone(cluster: DaskCluster, words: list[str]) -> str:
    """The lines for scripts of one process that judges everything."""
    return call("validate", *words).communicate(timeout=SECONDS)[0]


def shards_in(folder: Path) -> int:
    return len(list(folder.glob("[!.]*.json")))


def sleepy(folder: Path, *options: str) -> list[str]:
    """What times, in one process, a model whose calls take TOY_SECONDS; the first word is its directory."""
    work = odd_numpy(folder, build=SLEEPY)
    words = [str(work.directory), "--engine", NUMPY_ENGINE, "--weights", str(work.directory / "weights.npz")]
    return [*words, "--precision", "fp32", "--threads", "1", "--processes", "1", "--no-audit", *options]


def test_hosts_judge_as_one_process_does_although_the_scheduler_and_then_one_of_them_are_killed(
    hosts: DaskCluster, words: list[str], alone: str, tmp_path: Path
) -> None:
    """Without its scheduler a call ends with one line; the next one judges what is missing, and every picture once."""
    result, shards = tmp_path / "fleet.json", tmp_path / "shards"
    own = ["--shards-dir", str(shards), "--shard-items", "2", "--scheduler", hosts.address, "--json", str(result)]
    calling = call("fleet", "validate", *words, *own)
    until(lambda: shards_in(shards) >= 3 or calling.poll() is not None)
    hosts.kill("scheduler")
    out, err = calling.communicate(timeout=SECONDS)
    assert (out, calling.returncode) == ("", 2), err
    lines = [line for line in err.splitlines() if not line.startswith(("hosts: ", "shard "))]
    assert lines == [
        f"modelzoo: error: the Dask scheduler at {hosts.address} is lost; finished shards are kept in {shards}, run "
        "the same command again"
    ]
    kept = shards_in(shards)
    assert 3 <= kept < 18
    hosts.kill_all()
    hosts.ensure()
    calling = call("fleet", "validate", *words, *own)
    until(lambda: shards_in(shards) >= kept + 2 or calling.poll() is not None)
    hosts.kill("w0")
    out, err = calling.communicate(timeout=SECONDS)
    assert f"{kept} of 20 shards are in {shards} already" in err
    assert err.count(" is finished, by ") == 20 - kept
    assert out == alone and out.startswith("[VALID] linear")
    (report,) = store.read(result).sharding
    assert (report.items, report.shards, report.reused) == (PICTURES, 20, kept)
    assert sum(host.items for host in report.hosts) == PICTURES
    assert "warning: tcp" not in err
    until(lambda: not processes_with(words[0]))


def test_a_slow_host_is_named(hosts: DaskCluster, tmp_path: Path) -> None:
    """Four hosts run the same command; its process is eight times slower on one of them."""
    hosts.worker("slow", TOY_SECONDS="0.16")
    hosts.await_workers("slow")
    words = sleepy(tmp_path / "odd", "--iterations", "5", "--warmup", "1")
    calling = call("fleet", "run", *words, "--json-dir", str(tmp_path / "results"), "--scheduler", hosts.address)
    out, err = calling.communicate(timeout=SECONDS)
    hosts.kill("slow")
    assert (out, calling.returncode) == ("", 0), err
    found = json.loads((tmp_path / "results" / "fleet.json").read_text())
    assert len(found["hosts"]) == 4
    assert all(store.read(Path(host["result"])).runs for host in found["hosts"])
    (kind,) = found["kinds"]
    assert [level["host"].partition(" ")[2] for level in kind["levels"] if level["odd"]] == ["(slow)"], err
    assert "(slow) is " in err


def test_a_lost_host_is_named_and_an_interruption_ends_the_others(hosts: DaskCluster, tmp_path: Path) -> None:
    """A task that was bound to it would wait for ever; no process of the call stays behind on any host."""
    words = sleepy(tmp_path / "odd", "--max-seconds", "600")
    own = ["--json-dir", str(tmp_path / "results"), "--scheduler", hosts.address]
    calling = call("fleet", "run", *words, *own)
    until(lambda: len(processes_with(f"run {words[0]}")) >= 4 or calling.poll() is not None)
    hosts.kill("w1")
    lines = []
    while not lines or "cannot measure" not in lines[-1]:
        lines.append(calling.stderr.readline())
        assert lines[-1], lines
    assert "(w1) cannot measure: the Dask worker is lost" in lines[-1]
    calling.send_signal(signal.SIGINT)
    out, err = calling.communicate(timeout=SECONDS)
    assert (out, calling.returncode) == ("", 130)
    assert err == f"modelzoo: interrupted; the results of 0 hosts are in {tmp_path / 'results' / 'hosts'}\n"
    until(lambda: not processes_with(words[0]))


def test_a_host_with_other_code_is_refused(hosts: DaskCluster, words: list[str], tmp_path: Path) -> None:
    """In one line, before anything is judged."""
    shutil.copytree(ROOT / "modelzoo", tmp_path / "copy" / "modelzoo", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "copy" / "modelzoo" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    own = ["--shards-dir", str(tmp_path / "shards"), "--scheduler", hosts.address]
    calling = call("fleet", "validate", *words, *own, path=tmp_path / "copy")
    out, err = calling.communicate(timeout=SECONDS)
    assert (out, calling.returncode) == ("", 2)
    (line,) = err.splitlines()
    assert line.startswith("modelzoo: error: host ")
    assert " has source code of modelzoo: " in line

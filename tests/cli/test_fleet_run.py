"""``modelzoo fleet run`` and ``throughput`` as one member, without torchrun and without workers."""

from __future__ import annotations

import argparse
import json
from functools import partial
from pathlib import Path

import pytest
from fake_runs import make, result_of
from fleet_members import QUICK, free_port

from modelzoo.cli.fleet import measure_on_all
from modelzoo.errors import EnvironmentProblem
from modelzoo.fleet import gathering
from modelzoo.results import store


@pytest.fixture
def args(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The only member of a fleet, as torchrun starts it."""
    found = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    monkeypatch.setattr(gathering, "measure_together", partial(gathering.measure_together, times=QUICK))
    return argparse.Namespace(store=f"127.0.0.1:{free_port()}", bind=None, json_dir=tmp_path / "results")


@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_is_that_of_the_measurement(
    args: argparse.Namespace, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 stands for a setting that failed, or predictions that are not valid; nothing is printed to stdout."""

    def measure(path: Path) -> int:
        store.write(result_of(make([0.1] * 3)), path)
        return code

    assert measure_on_all(args, {}, measure) == code
    assert json.loads((args.json_dir / "fleet.json").read_text())["hosts"][0]["result"]
    printed = capsys.readouterr()
    assert not printed.out
    assert "one host of this kind" in printed.err


def test_results_of_an_earlier_call_do_not_stay_among_those_of_this_one(args: argparse.Namespace) -> None:
    """That one had more hosts; what else is in the directory stays."""
    hosts = args.json_dir / "hosts"
    hosts.mkdir(parents=True)
    for name in ("host-0.json", "host-7.json", "notes.txt"):
        (hosts / name).write_text("old")
    (args.json_dir / "fleet.json").write_text("old")

    def fails(path: Path) -> int:
        raise EnvironmentProblem("no such device")

    assert measure_on_all(args, {}, fails) == 1
    assert [path.name for path in hosts.iterdir()] == ["notes.txt"]
    assert "no such device" in (args.json_dir / "fleet.json").read_text()


def test_an_interruption_names_no_file_that_does_not_exist(
    args: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing has been measured yet."""

    def interrupted(path: Path) -> int:
        raise KeyboardInterrupt

    assert measure_on_all(args, {}, interrupted) == 130
    assert capsys.readouterr().err.splitlines()[-1] == "modelzoo: interrupted"

"""``modelzoo fleet validate`` as one member, without torchrun and without workers."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from fleet_members import QUICK, FakeJudge, free_port, member, plan
from toy_workloads import numpy_classifier, numpy_setting

from modelzoo.cli.fleet_validate import _Call
from modelzoo.errors import EnvironmentProblem
from modelzoo.fleet.collector import store_of
from modelzoo.fleet.member import ShardFiles
from modelzoo.fleet.validation import judge_together
from modelzoo.measure import shard_calls
from modelzoo.results import store


class Broken:
    """A setting that cannot run here."""

    def __init__(self, *args: object) -> None:
        pass

    def __enter__(self) -> Broken:
        raise EnvironmentProblem("no such device")

    def __exit__(self, *args: object) -> None:
        pass


@pytest.mark.parametrize("rank", [0, 1])
def test_a_setting_that_cannot_run_leaves_the_others_to_be_judged(
    tmp_path: Path, rank: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], numpy_engine: None
) -> None:
    """Each is named with its reason, the exit code is 2, and nobody waits for the host of the store."""
    monkeypatch.setattr(shard_calls, "Shards", Broken)
    (tmp_path / "linear").mkdir()
    work = numpy_classifier(tmp_path / "linear")
    settings = tuple(numpy_setting(work).replace(precision=each) for each in ("bf16", "fp32"))
    args = argparse.Namespace(
        label="",
        data=str(tmp_path),
        tolerance=[],
        limit=None,
        artifacts=str(tmp_path),
        explain=False,
        shard_items=None,
        recheck=0,
        timeout=None,
    )
    args.output = str(tmp_path / "result.json")
    port, files = free_port(), ShardFiles(tmp_path / "shards")
    here = member(rank, 2, port)
    with store_of(member(0, 2, port)) as address:
        assert _Call([(work, settings)], args, here, address, files).judge() == 2
        printed = capsys.readouterr()
        assert not printed.out
        assert printed.err.count("no such device") == 2
        if rank == 0:
            assert [entry.error for entry in store.read(tmp_path / "result.json").validity] == ["no such device"] * 2
            for group in (0, 1):
                with pytest.raises(EnvironmentProblem, match="given up: no such device"):
                    judge_together(member(1, 2, port), address, FakeJudge("x", plan()), files, group, times=QUICK)
        else:
            assert not (tmp_path / "result.json").exists()

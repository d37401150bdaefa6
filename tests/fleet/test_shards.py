"""Parts and shards of a data set as files: merged as one pass, and refused if anything differs or is missing."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from fake_runs import MACHINE
from programs import in_this_process
from toy_workloads import judging_words

from modelzoo.cli import main
from modelzoo.fleet.shards import ShardFiles, proven_otherwise, read_part
from modelzoo.frozen import replace
from modelzoo.measure import jobs
from modelzoo.records.canary import CanaryVerdict
from modelzoo.records.codec import encode_json
from modelzoo.records.fleet import JudgedBy, Shard, ShardingReport, ShardPlan, ShardResult
from modelzoo.records.partial import PartialResult
from modelzoo.records.run import Observed, Provenance, SideReport
from modelzoo.results import store
from modelzoo.views.fleet import sharding_notes

PLAN = ShardPlan({"torch": "2.10.0"}, "picture", tuple(Shard(n, 4 * n, 4 * n + 4, f"{n:032}{n:032}") for n in range(3)))


def judged(shard: Shard, host: str = "zoo0", side: SideReport = SideReport()) -> ShardResult:  # noqa: B008 - frozen
    """What a host makes of a shard."""
    by = JudgedBy(f"session of {host}", host, side, side, Provenance(MACHINE, "fake", fingerprint="f", cpus=(0,)))
    return ShardResult(shard, "files", PartialResult("classification"), by, 1.0)


class Opened:
    """A plan, and what the files of its items hold now."""

    def __init__(self, content: str = "files") -> None:
        self.plan, self._content = PLAN, content

    def content(self, shard: Shard) -> str:
        return self._content


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What judges a classifier without torch on twelve pictures."""
    monkeypatch.setattr(jobs, "Remote", in_this_process)
    return judging_words(tmp_path, 12)


def test_merged_parts_give_the_line_of_one_process(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any fleet, and wherever the data is when they are merged; a missing part is named."""
    parts = [str(tmp_path / f"part-{number}.json") for number in (1, 2, 3)]
    for number, path in enumerate(parts, 1):
        assert main(["validate", *words, "--shard", f"{number}/3", "--json", path]) == 0
    assert "part 3 of 3: 4 of 12 images are judged" in " ".join(capsys.readouterr().err.split())
    code = main(["validate", *words])
    whole = capsys.readouterr().out
    assert whole.startswith("[VALID] linear")
    (tmp_path / "pictures").rename(tmp_path / "moved")
    result = tmp_path / "merged.json"
    called = ["validate", "--data", str(tmp_path / "moved"), "--json", str(result)]
    assert main([*called, "--merge", *parts]) == code
    assert capsys.readouterr().out == whole
    (report,) = store.read(result).sharding
    assert [(host.host, host.items) for host in report.hosts] == [(socket.gethostname(), 12)]
    assert main([*called, "--merge", parts[0], parts[2]]) == 2
    assert "1 of 3 shards are missing: --shard 2/3; judge them" in capsys.readouterr().err
    other = read_part(Path(parts[1]))
    Path(parts[1]).write_bytes(encode_json(replace(other, facts={**other.facts, "numpy": "1.0"})))
    assert main([*called, "--merge", *parts]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "part-2.json was judged otherwise than here (numpy: 1.0 instead of " in line


def test_more_parts_than_shards_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Some would be empty, and nobody would know what to merge."""
    assert main(["validate", *words, "--shard", "1/9", "--json", "/dev/null"]) == 2
    assert "the data set divides into 3 shards at most" in capsys.readouterr().err


def test_finished_shards_are_used_again_if_nothing_changed(tmp_path: Path) -> None:
    """A damaged file, one of another plan, and pictures that have changed cost their shards."""
    files = ShardFiles(tmp_path)
    for shard in PLAN.shards:
        files.write(judged(shard))
    assert not files.missing(Opened())  # type: ignore[arg-type]
    assert files.missing(Opened("other files")) == list(PLAN.shards)  # type: ignore[arg-type]
    damaged, *_ = sorted(tmp_path.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert files.missing(Opened()) == [PLAN.shards[0]]  # type: ignore[arg-type]
    files.write(judged(replace(PLAN.shards[0], number=7)))
    assert files.missing(Opened()) == [PLAN.shards[0]]  # type: ignore[arg-type]


def test_hosts_that_ran_another_precision_are_named() -> None:
    """One metric would cover predictions in bf16 and in fp32."""
    verdicts = CanaryVerdict.ACTIVE, CanaryVerdict.NOT_ACTIVE
    active, inactive = (SideReport(observed=Observed(canary_verdict=each)) for each in verdicts)
    judges = [judged(PLAN.shards[0], host, side).by for host, side in (("a", active), ("b", active), ("c", inactive))]
    otherwise = tuple(proven_otherwise(judges))
    assert {each.host for each in otherwise} == {"c"}
    note = sharding_notes(ShardingReport(0, "picture", 12, 3, otherwise=otherwise))[1]
    assert note.startswith("The canary of the model under test says not active on host c, and active on host a")

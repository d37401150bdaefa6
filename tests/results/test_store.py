"""Results are complete JSON at any moment, are read back as written, and are refused if they are not ours."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import load_results
import pytest
from calls import called
from fake_runs import make, result_of
from hypothesis import given
from hypothesis import strategies as st
from instances import configuration, ran
from instances import result as instances_result
from stored_results import STORED, damage, name, written

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.plan import Goal
from modelzoo.records.race import Exclusion, ExclusionKind, Tuning
from modelzoo.records.run import FORMAT, Result, SettingRequest, Thumbnail, ValidityEntry
from modelzoo.results import store, summary
from modelzoo.results.store import mask
from modelzoo.setting import Setting
from modelzoo.views.kinds import objections

BF16 = Setting("bf16")


def some_result() -> Result:
    """One good run and one that failed."""
    return result_of(make([1.0, 2.0]), make(None, round=1, error="the worker died"))


def read_data(data: Any, directory: Path) -> Result:
    """Read ``data`` from a file."""
    (directory / "r.json").write_text(json.dumps(data))
    return store.read(directory / "r.json")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Runs, judgements, command and time survive; directories are created."""
    path = tmp_path / "new folder" / "r.json"
    entry = ValidityEntry("toy", 0, Setting(), 2, error="no data", thumbnails=(Thumbnail("a.jpg", b"\xff\xd8/root"),))
    result = replace(some_result().plus(entry), version="0.0.1", commit="abc")
    store.write(result, path)
    assert store.read(path) == result
    assert [run.steady for run in store.read(path).runs] == [(1.0, 2.0), ()]


def test_every_change_is_stored_at_once(tmp_path: Path) -> None:
    """The file is complete before the first run, after each run and after each judgement."""
    requested = (SettingRequest("toy", Setting()), SettingRequest("toy", BF16))
    stored = store.ResultFile(tmp_path / "r.json", Result((), "", requested))
    assert store.read(stored.path) == stored.result
    stored.add(make([1.0]))
    assert len(store.read(stored.path).runs) == 1
    stored.add(ValidityEntry("toy", 1, BF16, 2, error="no data"))
    assert store.read(stored.path) == stored.result


def test_a_search_is_stored_as_it_goes_on(tmp_path: Path) -> None:
    """What it adds to what was asked for is added once."""
    tuning = Tuning("toy", Goal.LATENCY, 60.0, 2)
    requested = (SettingRequest("toy", Setting()), SettingRequest("toy", Setting(mode="compile")))
    stored = store.ResultFile(tmp_path / "r.json", Result(("modelzoo", "tune"), "2026-01-01T00:00:00+00:00", requested))
    stored.set_payload(tuning)
    assert stored.group_of("toy", Setting(mode="compile")) == 1
    assert [stored.group_of("toy", Setting(mode="script")) for _ in range(2)] == [2, 2]
    found = store.read(tmp_path / "r.json")
    assert found.payload == tuning
    assert len(found.requested) == 3
    stored.set_payload(replace(tuning, excluded=(Exclusion(3, ExclusionKind.SLOWER),)))
    with pytest.raises(InputError, match="names a setting that is none of the 3"):
        store.read(tmp_path / "r.json")


def test_private_names_are_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the command nor deep inside a report."""
    monkeypatch.setenv("HOME", "/home/alice")
    monkeypatch.setenv("USER", "alice")
    setting = Setting(weights="/home/alice/w.pth", input="/Users/bob/cat.jpg")
    run, failed = make([1.0], setting=setting, items=("/scratch/alice/cat.jpg",)), make(None, error="no /home/x/y")
    text = json.dumps(written(replace(result_of(run, failed), command=("/home/alice/bin/modelzoo",)), tmp_path))
    assert not any(word in text for word in ("alice", "bob", "/home/x"))
    assert store.read(tmp_path / "r.json").requested[0].setting.weights == "~/w.pth"


def test_what_took_long_is_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory of this user's own; if that is not possible either, the reason is still that of the file."""
    (tmp_path / "r.json").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    place, problem = store.keep(tmp_path / "r.json", b"x")
    assert place == tmp_path / f"modelzoo-{os.getuid()}" / f"r-{os.getpid()}.json"
    assert place.read_bytes() == b"x"
    assert problem == f"cannot write {tmp_path / 'r.json'}: Is a directory"
    monkeypatch.setattr("tempfile.tempdir", __file__)
    assert store.keep(tmp_path / "r.json", b"x") == (None, problem)
    assert store.keep(tmp_path / "s.json", b"x") == (tmp_path / "s.json", "")


# Versions


def test_a_newer_minor_version_is_read_without_what_it_added(tmp_path: Path) -> None:
    """Unknown fields are ignored at every level; stored again, the file has this suite's format."""
    data = written(some_result(), tmp_path)
    expected = store.read(tmp_path / "r.json")
    data["format"] = "modelzoo-result/4.7"
    data["energy"] = data["runs"][0]["joules"] = {"new": [1]}
    data["runs"][0]["report"]["provenance"]["machine"]["quantum"] = True
    data["runs"][0]["requested"]["pruned"] = 0.5
    result = read_data(data, tmp_path)
    assert replace(result, format=FORMAT) == expected
    assert written(result, tmp_path)["format"] == FORMAT


def test_a_newer_minor_version_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    """A precision that this suite does not know is no damage."""
    data = written(some_result(), tmp_path)
    data["format"] = "modelzoo-result/4.7"
    data["requested"][0]["setting"]["precision"] = "fp8"
    with pytest.raises(InputError, match=r"has format 4.7, newer than this suite's 4.1, .*fp8.*; update modelzoo"):
        read_data(data, tmp_path)


# Damage


def refused(path: Path) -> str:
    """The short line that a command prints which cannot read this file."""
    code, out, err = called("report", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    text = err.replace(str(path), "")
    assert len(text) < 350
    return text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((each, "is not JSON") for each in (b"", b"{", b"\x00\x01\xff", b'{"a": NaN}', b'{"a": 1e999}')),
        *((each, "is not JSON") for each in (b"9" * 6000, gzip.compress(b"{}", mtime=0))),
        (b"[" * 100_000, "is nested too deeply"),
        *((each, "is not a result of modelzoo") for each in (b"[]", b'"modelzoo-result/4"', b"{}", b'{"format": 2}')),
        (b'{"format": "modelzoo-result/%s"}' % (b"9" * 5000), "is not a result of modelzoo"),
        (b'{"format": "modelzoo-result/4.0.1"}', "is not a result of modelzoo"),
        (b'{"format": "modelzoo-result/99.1"}', "has format 99, newer than this suite's 4; update modelzoo to read it"),
        (b'{"format": "modelzoo-result/3"}', "format 3, older than this suite's 4; measure again, or use release 0.1"),
        *(
            (b'{"format": "modelzoo-result/4", "payload": {"type": %s}}' % each, "format 4.0, older than this suite's")
            for each in (b'"tuning", "stages": [{"groups": [0]}]', b'"throughput", "dropped": []')
        ),
        (b'{"schema": "modelzoo-result/1"}', "has format 1, older than this suite's 4"),
        (b'{"format": "modelzoo-result/4"}', "does not say which version of modelzoo wrote it"),
        (b'{"format": "modelzoo-result/4", "version": "1"}', "is damaged"),
        (b'{"format": "modelzoo-result/4", "version": 1, "command": [], "created": ""}', "is damaged"),
    ],
    ids=lambda value: str(value[:60]),
)
def test_what_is_not_a_result_is_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    """Empty, truncated, binary, too deep, other JSON, other versions, and results that lack parts."""
    (tmp_path / "r.json").write_bytes(content)
    assert message in refused(tmp_path / "r.json")


LOOKS = {"workload": "toy", "margin": 0.05, "maximum": 16}
RUN = ("runs", 0)
TIMES = (*RUN, "report", "timing", "series", 0, "values")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((*RUN, "round"), 1.5, "got `float` - at `$.runs[0].round`"),
        ((*RUN, "round"), 10**30, "an integer has more than 64 bits"),
        ((*RUN, "group"), 7, "toy belongs to group 7, and there are 1"),
        ((*RUN, "workload"), "other", "other belongs to group 0, which is of toy"),
        ((*RUN, "requested"), {"batch": -4}, "--batch must be 1 or more, not -4"),
        ((*RUN, "report"), {}, "missing required field `workload` - at `$.runs[0].report`"),
        # Medians and logarithms need positive numbers.
        *((TIMES, [1.0, value], "is damaged") for value in (0.0, -1.0, 5e-324, 1e308, "1", None, True)),
        *(
            (("payload", "designs"), [{**LOOKS, "looks": looks}], "looks of toy do not as")
            for looks in ([12, 8], [0, 8], [8, 24])
        ),
    ],
)
def test_damage_is_one_line(place: tuple[str | int, ...], value: Any, message: str, tmp_path: Path) -> None:
    """It names what is wrong, and where."""
    data = written(result_of(make([1.0])), tmp_path)
    damage(data, place, value)
    (tmp_path / "r.json").write_text(json.dumps(data))
    assert message in refused(tmp_path / "r.json")


def test_impossible_loads_are_refused(tmp_path: Path) -> None:
    """A measurement under load is checked like the others."""
    measured = load_results.result(load_results.measured(load_results.load(queries=20, bound=None)))
    for field, value in (("latencies", [0.01, -1.0]), ("seconds", 1e12), ("rate", 0.0), ("rate", -5.0)):
        data = written(measured, tmp_path)
        damage(data, ("payload", "runs", 0, field), value)
        with pytest.raises(InputError, match=rf"damaged \(Expected `float` .* - at `\$.payload.runs.*{field}"):
            read_data(data, tmp_path)


@pytest.mark.parametrize("stored", [STORED[0], STORED[-1]], ids=name)
@given(st.data())
def test_truncated_results_are_refused(stored: Path, data: st.DataObject) -> None:
    """Wherever the file ends, nothing but an ``InputError`` is raised."""
    content = stored.read_bytes().rstrip()
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(InputError):
        read_bytes(content[:end])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("stored", [path for path in STORED if path.stat().st_size < 20_000], ids=name)
@given(st.data())
def test_a_value_replaced_by_anything_is_read_or_refused(stored: Path, data: st.DataObject) -> None:
    """Hostile content at any place of a real result: it can be summarized or is an ``InputError``, nothing else."""
    here = content = json.loads(stored.read_bytes())
    while True:
        place = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        inner = here[place]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        here = inner
    here[place] = data.draw(json_values)
    try:
        result = read_bytes(json.dumps(content).encode())
    except InputError as error:
        assert "\n" not in str(error)
        return
    objections(summary.rows(result))
    result.only_error()


def read_bytes(content: bytes) -> Result:
    """Read ``content`` without a file, which is faster for many examples."""

    class Memory(type(Path())):
        def read_bytes(self) -> bytes:
            return content

    return store.read(Memory("r.json"))


def test_the_rounds_of_instances_are_stored_and_checked(tmp_path: Path) -> None:
    """They name configurations and settings that exist, and times that are possible."""
    own = [configuration(1), configuration(4)]
    measured = instances_result(own, [ran(1, own[1], 0, [0.1] * 4)])
    stored = store.ResultFile(tmp_path / "r.json", measured)
    assert store.read(stored.path).payload == measured.payload
    found = measured.payload
    (run,) = found.runs
    late = replace(run.instances[0], latencies=(1e12,))
    for wrong, error in (
        (replace(found, runs=(replace(run, configuration=2),)), "a configuration that does not exist"),
        (replace(found, configurations=(replace(own[0], group=3), own[1])), "names a setting that is none of the"),
        (replace(found, runs=(replace(run, instances=(late,)),)), r"Expected `float` < 1000000000.0 - at .*latencies"),
    ):
        stored.set_payload(wrong)
        with pytest.raises(InputError, match=error):
            store.read(stored.path)


ALICE = {"HOME": "/home/alice", "USER": "alice"}


def test_strings_are_masked_wherever_they_are() -> None:
    """In lists, maps and in the middle of sentences; keys and bytes stay."""
    data = {
        "command": ["/home/alice/run", "--json", "/tmp/alice/r.json"],
        "report": {"error": "cannot read /home/alice/x.pth: no such file", "path": {"/home/alice": "/home/alice"}},
        "jpeg": b"\xff/home/alice",
        "numbers": [1, 2.5, None, True],
        "name": "alice",
    }
    assert mask(data, ALICE) == {
        "command": ["~/run", "--json", "/tmp/USER/r.json"],
        "report": {"error": "cannot read ~/x.pth: no such file", "path": {"/home/alice": "~"}},
        "jpeg": b"\xff/home/alice",
        "numbers": [1, 2.5, None, True],
        "name": "alice",
    }


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="/\\", exclude_categories=("Cs",)))))
def test_text_without_paths_stays(texts: list[str]) -> None:
    """Any language, any symbol."""
    assert mask(texts, ALICE) == texts


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    """A result that is read and stored again stays the same."""
    once = mask([text], ALICE)
    assert mask(once, ALICE) == once

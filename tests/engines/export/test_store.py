"""Exported models are made once, are complete or not there, and give the measured batch."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from modelzoo.engines.export import store
from modelzoo.engines.export.source import CHANGED, PLAIN, TorchSource
from modelzoo.errors import EnvironmentProblem, UsageError
from modelzoo.frozen import replace
from modelzoo.records.workload import Conversion, Export, Weights, WeightsKind
from modelzoo.setting import ResolvedSetting
from modelzoo.workload.declaration import Inputs, Workload, inputs_digest

CONVERSION = Conversion("toy.export", "1.0", 17, {"fold": True})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for each test."""
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "exports"


def source(folder: Path, value: float = 1.0, rows: int = 2, weight: float = 1.0) -> TorchSource:
    """A linear layer with a batch of rows of ``value`` and a number."""
    path = folder / f"weights-{weight}.safetensors"
    save_file({"weight": torch.full((2, 3), weight)}, str(path))

    class Layer(torch.nn.Linear):  # type: ignore[misc]  # torch has no types here
        def forward(self, rows: Any, factor: float) -> Any:
            return {"rows": super().forward(rows) * factor}

    work = Workload(
        name="toy",
        title="a toy",
        unit="rows",
        build=lambda options: Layer(3, 2, bias=False),
        inputs=lambda request: Inputs((torch.full((rows, 3), value), 0.5), ("row",) * rows),
    )
    weights = Weights(WeightsKind.PATH, path.name, str(path), "")
    return TorchSource(work, ResolvedSetting(), weights)


def write(directory: Path) -> None:
    """An exporter that writes one file in a directory."""
    (directory / "sub").mkdir()
    (directory / "sub" / "model.bin").write_bytes(b"model")


def export(made: TorchSource, conversion: Conversion = CONVERSION, write: Callable[[Path], Any] = write) -> Export:
    """The export of ``made``."""
    return store.export_once(made, "toy", conversion, write)


def never(directory: Path) -> None:
    """An exporter that must not be called."""
    raise AssertionError("exported again")


def test_an_equal_model_is_exported_once_and_another_batch_is_added(tmp_path: Path) -> None:
    """Other values of the inputs have the same shapes, so only the batch is new."""
    made = source(tmp_path)
    first = export(made)
    assert (first.conversion, first.state_sha256) == (CONVERSION, made.state_sha256)
    assert export(source(tmp_path), write=never) == first
    second = export(source(tmp_path, value=2.0), write=never)
    assert (second.path, second.sha256) == (first.path, first.sha256)
    assert second.batch != first.batch


def test_whatever_changes_an_export_makes_another(tmp_path: Path) -> None:
    """Weights, shapes of the inputs, exporter's version, opset and options."""
    changes: list[dict[str, Any]] = [{"version": "1.1"}, {"opset": 18}, {"options": {"fold": False}}]
    made = [(source(tmp_path), replace(CONVERSION, **each)) for each in changes]
    made += [(each, CONVERSION) for each in (source(tmp_path), source(tmp_path, weight=1.01), source(tmp_path, rows=3))]
    assert len({export(*each).path for each in made}) == 6


def test_the_batch_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Nested as the workload's own, with the same digest; and torch's outputs for it and for a slightly changed one."""
    made = source(tmp_path)
    found = export(made)
    inputs, expected, changed = (store.read_inputs(found), *(store.read_expected(found, s) for s in (PLAIN, CHANGED)))
    assert (inputs_digest(inputs.args), inputs.items, inputs.args[1]) == (
        inputs_digest(made.inputs.args),
        ("row", "row"),
        0.5,
    )
    assert (expected.outputs[0].tolist(), expected.heads) == ([[1.5, 1.5], [1.5, 1.5]], ())
    assert store.read_batch(found).outputs.names() == ("rows",)
    np.testing.assert_allclose(changed.outputs[0], expected.outputs[0], rtol=1e-4)
    assert not np.array_equal(changed.outputs[0], expected.outputs[0])


def test_an_exporter_that_fails_leaves_nothing_and_its_reason_is_one_line(tmp_path: Path, cache: Path) -> None:
    """The next call tries again."""

    def failing(directory: Path) -> None:
        (directory / "half").write_text("half")
        raise NotImplementedError("no operator aten::grumble\nwith a traceback")

    problem = "toy cannot be exported for toy: NotImplementedError: no operator aten::grumble"
    with pytest.raises(UsageError) as caught:
        export(source(tmp_path), write=failing)
    assert str(caught.value) == f"{problem}; run it with --engine torch"
    assert list(cache.iterdir()) == []
    assert export(source(tmp_path)).sha256


def test_a_directory_without_a_manifest_is_made_again(tmp_path: Path) -> None:
    """The manifest is written last; an older layout or a damaged one does not count either."""
    first = export(source(tmp_path))
    manifest = Path(first.path) / store.MANIFEST
    for content in (None, "{", json.dumps({"conversion": "old"})):
        manifest.unlink() if content is None else manifest.write_text(content)
        assert export(source(tmp_path)) == first


def test_the_faster_of_two_processes_wins(tmp_path: Path) -> None:
    """Both export; the slower one uses what the other has finished."""

    def overtaken(directory: Path) -> None:
        faster.append(export(source(tmp_path)))

    faster: list[Export] = []
    assert export(source(tmp_path), write=overtaken).sha256 == faster[0].sha256
    assert store.read_inputs(faster[0]).items == ("row", "row")


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, cache: Path) -> None:
    """A file is in the way of the directory."""
    cache.parent.mkdir()
    cache.write_text("")
    with pytest.raises(EnvironmentProblem, match="the exported model cannot be written to .*MODELZOO_CACHE"):
        export(source(tmp_path))


def test_inputs_that_numpy_cannot_represent_are_refused(tmp_path: Path) -> None:
    """The measuring worker could not read them."""
    made = source(tmp_path)
    made.inputs = Inputs((torch.ones(2, 3, dtype=torch.bfloat16), 1.0), ("row",) * 2)
    with pytest.raises(UsageError, match="the inputs of toy hold values that numpy cannot represent"):
        export(made)


def test_an_export_that_is_gone_or_replaced_is_one_line(tmp_path: Path) -> None:
    """It was removed between two processes, or another one is in its place."""
    found = export(source(tmp_path))
    with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
        store.read_inputs(replace(found, sha256="0" * 64))
    (Path(found.path) / f"{found.batch}.npz").unlink()
    for read in (store.read_inputs, store.read_expected, store.read_batch):
        with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
            read(found)


def test_a_damaged_export_is_refused(tmp_path: Path) -> None:
    """Of the same size, when it is prepared; of another size by every worker, too."""
    made = source(tmp_path)
    found = export(made)
    model = Path(found.path) / "sub" / "model.bin"
    model.write_bytes(b"MODEL")
    store.read_inputs(found)
    for content in (b"MODEL", b"mode", None):
        model.unlink() if content is None else model.write_bytes(content)
        with pytest.raises(EnvironmentProblem) as caught:
            export(made, write=never)
        assert str(caught.value) == (f"the exported model in {found.path} has changed; remove that directory")
    with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
        store.read_inputs(found)
    shutil.rmtree(found.path)
    assert export(made) == found


def test_a_damaged_batch_is_one_line_and_is_written_anew_by_the_next_call(tmp_path: Path) -> None:
    """The file of arrays has checksums of its own; one that lacks an array is damaged too."""
    made = source(tmp_path)
    found = export(made)
    path = Path(found.path) / f"{found.batch}.npz"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[100] ^= 0xFF
    with np.load(path) as stored, io.BytesIO() as fewer:
        np.savez_compressed(fewer, **{name: stored[name] for name in stored.files if name not in ("input1", "plain0")})
        lacking = fewer.getvalue()
    cases = [(flipped, store.read_inputs), (content[:-40], store.read_batch)]
    for damaged, read in (*cases, (lacking, store.read_inputs), (lacking, store.read_expected)):
        path.write_bytes(damaged)
        with pytest.raises(EnvironmentProblem, match="cannot be read any more; run again"):
            read(found)
        assert export(made, write=never) == found
        assert store.read_inputs(found).items == ("row", "row")
        assert store.read_expected(found).outputs


def test_the_disk_holds_an_export_before_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and directory, the manifest last, and then its name; a power failure leaves no half of it."""
    synced: list[str] = []
    fsync = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    found = export(source(tmp_path))
    assert synced[:2] == ["sub", "model.bin"]
    assert synced[2].startswith(".modelzoo-"), "the manifest, before it has its name"
    assert synced[3].startswith(f".{Path(found.path).name}-"), "its directory"
    assert synced[4] == "exports"


def stored(folder: Path, name: str, days: float, *, complete: bool = True) -> Path:
    """An export of 100 bytes that was last used ``days`` ago."""
    path = folder / name
    path.mkdir()
    (path / "model.bin").write_bytes(b"x" * 100)
    if complete:
        (path / store.MANIFEST).touch()
    for each in (*path.glob(store.MANIFEST), path):
        os.utime(each, (time.time() - days * 86400,) * 2)
    return path


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    """No more than is needed; what another process may be writing or using stays, whatever the size."""
    old, new = stored(tmp_path, "old", 5), stored(tmp_path, "new", 2)
    stored(tmp_path, ".killed-0123.tmp", 9, complete=False)
    store.prune(tmp_path, 300)
    assert len(list(tmp_path.iterdir())) == 3
    store.prune(tmp_path, 250)
    assert sorted(tmp_path.iterdir()) == [new, old]
    os.utime(old / store.MANIFEST)
    store.prune(tmp_path, 100)
    assert list(tmp_path.iterdir()) == [old]
    writing = stored(tmp_path, ".toy-0123.tmp", 0.9 * store.PROTECTED_SECONDS / 86400, complete=False)
    store.prune(tmp_path, 0)
    assert sorted(tmp_path.iterdir()) == [writing, old]

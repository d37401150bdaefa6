"""Checkpoints whose reading could run code are refused."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from exportable_workloads import OPTIONS, STATE, publish, toy_with

from modelzoo.errors import WeightsError
from modelzoo.files import file_sha256
from modelzoo.frozen import replace
from modelzoo.workload import state, weights
from modelzoo.workload.state import read_state_dict

FIXED = ("2.10.0", "2.10.0+cu128", "2.10.1", "2.11.0a0+git1234567", "3.0", "2.13.0.dev20260101+cpu")
VULNERABLE = ("2.6.0", "2.6.0a0+git7c98e70", "2.9.1+cpu", "2.10.0a0+git449b176")
VULNERABLE_TOO = ("2.10.0rc3", "2.10.0.dev20251101", "unknown")
Save = Callable[[Any, Path], None]


class Planted:
    """Pickled, it is a call that creates a directory."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.place),))


class Restored(torch.nn.Module):
    """A module whose TorchScript archive creates a file when it is loaded."""

    def __init__(self, trap: str) -> None:
        super().__init__()
        self.trap = trap
        self.size = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.trap, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.trap = state[0]
        self.training = state[1]
        self.size = torch.from_file(state[0], True, 16).numel()


def unchanged(path: Path) -> None:
    """Leave a TorchScript archive as it is."""


def renamed(path: Path) -> None:
    """Give the directory in a TorchScript archive another name."""
    with zipfile.ZipFile(path) as old:
        records = {name.split("/", 1)[1]: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in records.items():
            new.writestr(f"odd name ü/{name}", content)


def hidden(path: Path) -> None:
    """Append the directory of another zip, so that Python's reader does not list what torch's reader may find."""
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as empty:
        empty.writestr("archive/data.pkl", b"")
    path.write_bytes(path.read_bytes() + other.getvalue())
    with zipfile.ZipFile(path) as seen:
        assert not [name for name in seen.namelist() if name.endswith("constants.pkl")]


@pytest.mark.parametrize("change", [unchanged, renamed, hidden])
def test_planted_code_in_torchscript_does_not_run(change: Callable[[Path], None], tmp_path: Path) -> None:
    """Code in an archive runs when it is loaded; no archive is, even if its checksum is published."""
    trap, path = tmp_path / "trap", tmp_path / "x.pth"
    torch.jit.save(torch.jit.script(Restored(str(trap))), str(path))
    change(path)
    with pytest.raises(WeightsError, match="cannot be read as weights: .*, or name another file$") as caught:
        read_state_dict(path, [file_sha256(path)])
    assert "weights_only" not in str(caught.value), "never advise to switch the protection off"
    assert not trap.exists()
    if change is not hidden:
        torch.jit.load(str(path))
        assert trap.exists(), "the trap works, so the test can fail"


def test_planted_code_in_a_tar_file_does_not_run(tmp_path: Path) -> None:
    """In the format of torch's first releases."""
    trap, path = tmp_path / "trap", tmp_path / "x.pth"
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        for name in ("storages", "tensors", "pickle"):
            content = pickle.dumps(Planted(trap) if name == "storages" else 1, protocol=2)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    with pytest.raises(WeightsError, match="it is not a checkpoint that torch.save") as caught:
        read_state_dict(path, [file_sha256(path)])
    assert "weights_only" not in str(caught.value)
    assert not trap.exists()
    with pytest.raises(TypeError):
        torch.load(path, weights_only=False)
    assert trap.exists(), "the trap works, so the test can fail"


@pytest.fixture(params=[True, False], ids=["as since 1.6", "as before"])
def save(request: pytest.FixtureRequest) -> Save:
    """Save a checkpoint in each of torch's formats."""
    return partial(torch.save, _use_new_zipfile_serialization=request.param)


@pytest.mark.parametrize("version", VULNERABLE + VULNERABLE_TOO)
def test_vulnerable_releases_read_no_unknown_pickle(
    save: Save, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is one line that names the way out, and torch does not see the file."""
    path = tmp_path / "my weights.pth"
    save(STATE, path)
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(torch, "load", None)
    for published in ((), ("",), ("0" * 64,), (file_sha256(path)[:7],)):
        with pytest.raises(WeightsError) as caught:
            read_state_dict(path, published)
        assert str(caught.value) == (
            f"{path} is a pickle that matches no published checkpoint, and torch {version} cannot read such a file "
            "safely (CVE-2026-24747, corrected in 2.10.0); convert it with a newer torch, by 'modelzoo weights "
            f"convert '{path}'', and give the safetensors file"
        )


@pytest.mark.parametrize("version", VULNERABLE)
@pytest.mark.parametrize("digits", [8, 64])
def test_vulnerable_releases_read_published_pickles(
    save: Save, version: str, digits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose SHA-256 begins with the published digits, however many there are from 8 on."""
    path = tmp_path / "x.pth"
    save(STATE, path)
    monkeypatch.setattr(torch, "__version__", version)
    read = read_state_dict(path, ["0" * 64, file_sha256(path)[:digits]])
    assert read["weight"].equal(STATE["weight"])


@pytest.mark.parametrize("version", FIXED)
def test_corrected_releases_read_pickles(
    save: Save, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody's, and none of them is hashed."""
    save(STATE, tmp_path / "x.pth")
    monkeypatch.setattr(torch, "__version__", version)
    monkeypatch.setattr(state, "file_sha256", None)
    assert read_state_dict(tmp_path / "x.pth")["bias"].equal(STATE["bias"])


@pytest.mark.parametrize("version", ["2.6.0", "2.10.0"])
def test_planted_code_does_not_run(save: Save, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if the file's digest is published."""
    trap, path = tmp_path / "trap", tmp_path / "x.pth"
    save({"weight": Planted(trap)}, path)
    monkeypatch.setattr(torch, "__version__", version)
    for published in ((), (file_sha256(path),)):
        with pytest.raises(WeightsError) as caught:
            read_state_dict(path, published)
        assert "weights_only" not in str(caught.value), "never advise to switch the protection off"
        assert not trap.exists()
    torch.load(path, weights_only=False)
    assert trap.exists(), "the trap works, so the test can fail"


def test_a_workloads_own_checkpoint_is_read_by_every_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its content, whatever the file is called; a file that claims its own digest in its name is not."""
    path, checkpoint = publish(tmp_path)
    work = toy_with(checkpoint)
    monkeypatch.setattr(torch, "__version__", "2.6.0")
    own = path.replace(tmp_path / "other name.pth")
    found = weights.resolve_weights(work, OPTIONS, str(own), 0)
    assert weights.load_model(work, OPTIONS, found).module.state_dict()["weight"].equal(STATE["weight"])
    forged, _ = publish(tmp_path, {name: tensor + 1 for name, tensor in STATE.items()})
    for each in (work, replace(work, checkpoint=lambda options: None)):
        found = weights.resolve_weights(each, OPTIONS, str(forged), 0)
        with pytest.raises(WeightsError, match="is a pickle that matches no published checkpoint"):
            weights.load_model(each, OPTIONS, found)

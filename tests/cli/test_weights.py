"""``modelzoo weights``: the table, the download of what is missing, and the error for a damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelzoo import cli
from modelzoo.cli import weights
from modelzoo.workload.discovery import find_workload, load_workload


@pytest.fixture(autouse=True)
def _own_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs' caches of this machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *args, **kwargs: None)


def test_list_names_every_checkpoint(capfd: pytest.CaptureFixture[str]) -> None:
    """Each published checkpoint, both sizes of BERT included, and that none of them is here."""
    assert cli.main(["weights", "list"]) == 0
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("not here") == 5
    assert "ResNet50_Weights.IMAGENET1K_V2" in captured.err


def test_list_gives_the_path_of_a_checkpoint_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in MODELZOO_WEIGHTS is listed with its path, another checkpoint with its source."""
    workloads = [load_workload(find_workload(name)) for name in ("resnet50", "ssd")]
    first, second = (workload.checkpoints()[0] for workload in workloads)
    (tmp_path / first.stem).write_text("x")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    rows, errors = weights._table(workloads, verify=False)
    assert rows == [
        ("resnet50", first.name, "98", "here", str(tmp_path / first.stem)),
        ("ssd", second.name, "136", "not here", second.source),
    ]
    assert errors == []


def test_verify_names_a_damaged_file(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose checksum is not that of its name: DAMAGED, the reason, exit code 2."""
    (checkpoint,) = load_workload(find_workload("resnet50")).checkpoints()
    (tmp_path / checkpoint.stem).write_bytes(b"not the weights")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    assert cli.main(["weights", "list", "resnet50"]) == 0
    assert "here" in capfd.readouterr().err
    assert cli.main(["weights", "verify", "resnet50"]) == 2
    captured = capfd.readouterr()
    assert "DAMAGED" in captured.err
    assert f"{tmp_path / checkpoint.stem} is damaged or altered: its SHA-256 begins" in captured.err


def test_fetch_downloads_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint of the default options, or with --all that of every size."""
    fetched: list[str] = []
    monkeypatch.setattr(weights, "fetch_checkpoint", lambda checkpoint: fetched.append(checkpoint.name))
    assert cli.main(["weights", "fetch", "bert"]) == 0
    assert len(fetched) == 1
    assert cli.main(["weights", "fetch", "bert", "--all"]) == 0
    assert len(fetched) == 3


def test_fetch_without_network_is_one_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Offline it ends in one line with exit code 2, which says what else can be done."""
    assert cli.main(["weights", "fetch", "resnet50"]) == 2
    fetching, error = capfd.readouterr().err.splitlines()
    assert fetching.startswith("fetching torchvision ResNet50")
    assert error.startswith("modelzoo: error: torchvision ResNet50")
    assert error.endswith("; without a network, put it into a directory and name that in MODELZOO_WEIGHTS")

"""``modelzoo weights``: the table, downloads, the error for a damaged file, and the conversion to safetensors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import torch
from fake_hub import COMMIT, serving
from toy_workload import publish, toy_with

from modelzoo import cli
from modelzoo.cli import weights
from modelzoo.files import file_sha256
from modelzoo.frozen import replace
from modelzoo.workload import Checkpoint
from modelzoo.workload.checkpoints import Checksum
from modelzoo.workload.discovery import find_workload, load_workload
from modelzoo.workload.state import read_state_dict


@pytest.fixture(autouse=True)
def _own_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs' caches of this machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *args, **kwargs: None)


def test_list_names_every_checkpoint(capfd: pytest.CaptureFixture[str]) -> None:
    """Each published checkpoint, both sizes of BERT included, and that none of them is here."""
    assert cli.main(["weights", "list"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert captured.out.count("not here") == 5
    assert "ResNet50_Weights.IMAGENET1K_V2" in captured.out


def test_list_gives_the_path_of_a_checkpoint_that_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in MODELZOO_WEIGHTS is listed with its path, another checkpoint with its source."""
    workloads = [load_workload(find_workload(name)) for name in ("resnet50", "ssd")]
    first, second = (workload.checkpoints()[0] for workload in workloads)
    (tmp_path / first.stem).write_text("x")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    rows, errors, _ = weights._table(workloads, verify=False)
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
    assert "here" in capfd.readouterr().out
    assert cli.main(["weights", "verify", "resnet50"]) == 2
    captured = capfd.readouterr()
    assert "DAMAGED" in captured.out
    assert f"{tmp_path / checkpoint.stem} is damaged or altered: its SHA-256 begins" in captured.err


@pytest.mark.parametrize(
    ("published", "is_as_downloaded", "state"),
    [
        (64, True, "verified, sha256 0123456789abcdef…"),
        (8, False, "partial digest (8 hex digits), sha256 0123456789abcdef…"),
        (0, False, "no digest, sha256 0123456789abcdef…"),
        (0, True, "no digest (unchanged since its download), sha256 0123456789abcdef…"),
    ],
)
def test_verify_says_how_much_was_compared(
    published: int, is_as_downloaded: bool, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prefix of the checksum is a partial digest, and a checkpoint without one is not verified."""
    digest = "0123456789abcdef" * 4
    (work,) = [load_workload(find_workload("resnet50"))]
    (checkpoint,) = work.checkpoints()
    (tmp_path / checkpoint.stem).write_text("x")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    found = Checksum(digest, digest[:published], is_as_downloaded)
    monkeypatch.setattr(weights, "verify_checkpoint", lambda *args: found)
    rows, errors, is_incomplete = weights._table([work], verify=True)
    assert (rows[0][3], errors, is_incomplete) == (state, [], published < 64)


@pytest.mark.parametrize(
    ("name", "pinned", "state"),
    [
        ("toy-{}.pth", False, "partial digest (8 hex digits)"),
        ("toy-{}.pth", True, "verified"),
        ("toy", False, "no digest"),
        ("toy", True, "verified"),
    ],
)
def test_verify_compares_what_is_declared(
    name: str, pinned: bool, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digits in a torchvision file's name, or the whole SHA-256; also of a directory in MODELZOO_WEIGHTS."""
    content = b"some weights"
    digest = hashlib.sha256(content).hexdigest()
    name = name.format(digest[:8])
    path = tmp_path / name if "." in name else tmp_path / name / "model.safetensors"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    source = f"https://host/{name}" if "." in name else f"someone/{name}"
    checkpoint = Checkpoint("toy", source, 1, sha256=digest if pinned else "")
    rows, errors, is_incomplete = weights._table([toy_with(checkpoint)], verify=True)
    assert (rows[0][3], errors) == (f"{state}, sha256 {digest[:16]}…", [])
    assert is_incomplete == (not pinned)


def test_verify_says_what_to_do_about_a_partial_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Once, below the table, and only if there is one."""
    path, checkpoint = publish(tmp_path)
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    for each, said in ((checkpoint, 1), (replace(checkpoint, sha256=file_sha256(path)), 0)):
        monkeypatch.setattr(weights, "load_workloads", lambda names, each=each: [toy_with(each)])
        assert cli.main(["weights", "verify"]) == 0
        captured = capfd.readouterr()
        assert captured.err == ""
        assert captured.out.count("'modelzoo weights pin'") == said


def test_pin_prints_what_to_declare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Lines for workload.py on stdout: the commit of a repository, and the SHA-256 of every file."""
    content = b"published weights"
    digest = hashlib.sha256(content).hexdigest()
    with serving(monkeypatch, tmp_path / "cache") as hub:
        hub.files[f"/toy-{digest[:8]}.pth"] = content
        hub.repositories["someone/toy", COMMIT] = {"config.json": b"{}", "model.safetensors": content}
        checkpoints = (
            Checkpoint("a file", f"{hub.address}/toy-{digest[:8]}.pth", 1),
            Checkpoint("a repository", "someone/toy", 2),
        )
        monkeypatch.setattr(weights, "load_workloads", lambda names: [toy_with(each) for each in checkpoints])
        assert cli.main(["weights", "pin"]) == 0
    captured = capfd.readouterr()
    assert captured.out == (
        f'# workload.py: a file\nsha256="{digest}",\n'
        f'# workload.py: a repository\ncommit="{COMMIT}",\nsha256="{digest}",\n'
    )
    assert captured.err.startswith("downloading a file (1 MB)\ndownloading a repository (2 MB)\n")


def test_pin_without_network_is_one_error(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed that could be taken for a digest."""
    assert cli.main(["weights", "pin", "bert"]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[1:] == [
        "modelzoo: error: csarron/bert-base-uncased-squad-v1 cannot be pinned: MODELZOO_OFFLINE or HF_HUB_OFFLINE is "
        "set; pin it on a machine that can reach the hub"
    ]


def test_convert_says_what_it_wrote(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Beside the file, or where -o says, which is replaced."""
    torch.save({"weight": torch.ones(500, 500)}, tmp_path / "x.pth")
    own, other = tmp_path / "x.safetensors", tmp_path / "other.safetensors"
    other.write_text("old")
    assert cli.main(["weights", "convert", str(tmp_path / "x.pth")]) == 0
    assert capfd.readouterr() == ("", f"wrote {own}: 1 tensors, 1.0 MB\n")
    assert cli.main(["weights", "convert", str(tmp_path / "x.pth"), "-o", str(other)]) == 0
    assert capfd.readouterr() == ("", f"wrote {other}: 1 tensors, 1.0 MB\n")
    assert read_state_dict(other)["weight"].shape == (500, 500)


def test_convert_ends_with_one_line_for_every_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.ones(1)}, "x.pth")
    Path("x.safetensors").write_text("old")
    Path("empty").mkdir()
    Path("cut.pth").write_bytes(Path("x.pth").read_bytes()[:-50])
    for words, message in (
        (["convert"], "give one checkpoint: modelzoo weights convert FILE"),
        (["convert", "x.pth", "cut.pth"], "give one checkpoint: modelzoo weights convert FILE"),
        (["convert", "y.pth"], "y.pth does not exist; name a checkpoint file"),
        (["convert", "empty"], "empty holds none of model.safetensors, model.safetensors.index.json, "),
        (["convert", "x.pth"], "x.safetensors exists; remove it, or name the file to write with -o"),
        (["convert", "x.safetensors"], "x.safetensors is safetensors already; there is nothing to convert"),
        (
            ["convert", "x.pth", "-o", "y.bin"],
            "y.bin does not end in .safetensors, by which the format is recognized; rename it",
        ),
        (["convert", "x.pth", "-o", "no/y.safetensors"], "x.pth cannot be written as no/y.safetensors: No such file"),
        (["convert", "cut.pth"], "cut.pth cannot be read as weights: "),
        (["verify", "-o", "y.safetensors"], "-o belongs to 'modelzoo weights convert', not to verify"),
    ):
        assert cli.main(["weights", *words]) == 2, words
        captured = capfd.readouterr()
        (line,) = captured.err.splitlines()
        assert line.startswith(f"modelzoo: error: {message}"), words
        assert captured.out == ""
    assert sorted(each.name for each in tmp_path.glob("*")) == ["cut.pth", "empty", "x.pth", "x.safetensors"]
    assert Path("x.safetensors").read_text() == "old"


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
    assert error.endswith("; set MODELZOO_WEIGHTS to a directory that has resnet50-11ad3fa6.pth (docs/install.md)")

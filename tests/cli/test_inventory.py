"""``modelzoo list``: what can be measured here."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import torch
from calls import called
from exportable_workloads import toy_with
from fake_hub import COMMIT, serving

from modelzoo.cli import inventory
from modelzoo.engines import ENGINES
from modelzoo.workload import Checkpoint
from modelzoo.workload.discovery import CHECKOUT, STANDARD_WORKLOADS, find_workload, load_workload
from modelzoo.workload.state import read_state_dict


def test_workloads_engines_and_packages_are_listed() -> None:
    """Each by the name that the command line takes, on stdout."""
    code, out, err = called("list")
    assert (code, err) == (0, "")
    first_words = {line.partition(" ")[0] for line in out.splitlines()}
    assert {*STANDARD_WORKLOADS, "examples/mlp", *ENGINES, *inventory.EXTRAS} <= first_words
    assert load_workload(CHECKOUT / "resnet50").title in out


def test_what_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported to find out."""
    monkeypatch.setattr(inventory, "installed_version", lambda package: None)
    lines = [" ".join(line.split()) for line in called("list").out.splitlines()]
    assert "openvino not installed pip install openvino" in lines
    assert all(any(line.startswith(f"{name} not installed ") for line in lines) for name in inventory.EXTRAS)


def test_nobody_is_told_to_install_the_suite_from_an_index() -> None:
    """Under its name, PyPI has another project, which 'modelzoo[openvino]' installs where this one is not."""
    texts = [CHECKOUT / "README.md", *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("modelzoo/**/*.py")]
    assert [path for path in texts if re.search(r"install ['\"]?modelzoo", path.read_text(encoding="utf-8"))] == []


@pytest.fixture(autouse=True)
def _own_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the hubs' caches of this machine."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *args, **kwargs: None)


def test_list_names_every_checkpoint(tmp_path: Path) -> None:
    """Both sizes of BERT included; one in MODELZOO_WEIGHTS with its path, the others with their source."""
    first, second = (load_workload(find_workload(name)).checkpoints()[0] for name in ("resnet50", "ssd"))
    (tmp_path / first.stem).write_text("x")
    code, out, err = called("weights", "list")
    assert (code, err) == (0, "")
    assert out.count("not here") == 4
    assert all(text in out for text in ("ResNet50_Weights.IMAGENET1K_V2", str(tmp_path / first.stem), second.source))


def test_verify_names_a_damaged_file(tmp_path: Path) -> None:
    """A file whose checksum is not that of its name: DAMAGED, the reason, exit code 2."""
    (checkpoint,) = load_workload(find_workload("resnet50")).checkpoints()
    (tmp_path / checkpoint.stem).write_bytes(b"not the weights")
    code, out, err = called("weights", "verify", "resnet50")
    assert code == 2
    assert "DAMAGED" in out
    assert f"{tmp_path / checkpoint.stem} is damaged or altered: its SHA-256 begins" in err


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
    """The digits in a file's name, or the whole SHA-256; what to do about less is said below the table."""
    content = b"some weights"
    digest = hashlib.sha256(content).hexdigest()
    name = name.format(digest[:8])
    path = tmp_path / name if "." in name else tmp_path / name / "model.safetensors"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    source = f"https://host/{name}" if "." in name else f"someone/{name}"
    checkpoint = Checkpoint("toy", source, 1, sha256=digest if pinned else "")
    monkeypatch.setattr(inventory, "load_workloads", lambda names: [toy_with(checkpoint)])
    code, out, err = called("weights", "verify")
    assert (code, err) == (0, "")
    assert f" {state}, sha256 {digest[:16]}… " in out
    assert out.count("'modelzoo weights pin'") == (0 if pinned else 1)


def test_pin_prints_what_to_declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of a repository, and the SHA-256 of every file."""
    content = b"published weights"
    digest = hashlib.sha256(content).hexdigest()
    with serving(monkeypatch, tmp_path / "cache") as hub:
        hub.files[f"/toy-{digest[:8]}.pth"] = content
        hub.repositories["someone/toy", COMMIT] = {"config.json": b"{}", "model.safetensors": content}
        checkpoints = (
            Checkpoint("a file", f"{hub.address}/toy-{digest[:8]}.pth", 1),
            Checkpoint("a repository", "someone/toy", 2),
        )
        monkeypatch.setattr(inventory, "load_workloads", lambda names: [toy_with(each) for each in checkpoints])
        code, out, err = called("weights", "pin")
    assert code == 0
    assert out == (
        f'# workload.py: a file\nsha256="{digest}",\n'
        f'# workload.py: a repository\ncommit="{COMMIT}",\nsha256="{digest}",\n'
    )
    assert err.startswith("downloading a file (1 MB)\ndownloading a repository (2 MB)\n")


@pytest.mark.parametrize(
    ("words", "start", "end"),
    [
        (
            "pin bert",
            "csarron/bert-base-uncased-squad-v1 cannot be pinned: MODELZOO_OFFLINE or HF_HUB_OFFLINE is set",
            "; pin it on a machine that can reach the hub",
        ),
        (
            "fetch resnet50",
            "torchvision ResNet50",
            "; set MODELZOO_WEIGHTS to a directory that has resnet50-11ad3fa6.pth (docs/install.md)",
        ),
    ],
)
def test_without_network_there_is_one_error(words: str, start: str, end: str) -> None:
    """Which says what else can be done; nothing is printed that could be taken for a digest."""
    code, out, err = called("weights", *words.split())
    assert (code, out) == (2, "")
    _, line = err.splitlines()
    assert line.startswith(f"modelzoo: error: {start}") and line.endswith(end)


def test_convert_says_what_it_wrote(tmp_path: Path) -> None:
    """Beside the file, or where -o says, which is replaced."""
    torch.save({"weight": torch.ones(500, 500)}, tmp_path / "x.pth")
    own, other = tmp_path / "x.safetensors", tmp_path / "other.safetensors"
    other.write_text("old")
    for words, written in (((), own), (("-o", other), other)):
        found = called("weights", "convert", tmp_path / "x.pth", *words)
        assert found == (0, "", f"wrote {written}: 1 tensors, 1.0 MB\n")
    assert read_state_dict(other)["weight"].shape == (500, 500)


def test_convert_ends_with_one_line_for_every_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.ones(1)}, "x.pth")
    Path("x.safetensors").write_text("old")
    Path("empty").mkdir()
    Path("cut.pth").write_bytes(Path("x.pth").read_bytes()[:-50])
    for words, message in (
        ("convert", "give one checkpoint: modelzoo weights convert FILE"),
        ("convert x.pth cut.pth", "give one checkpoint: modelzoo weights convert FILE"),
        ("convert y.pth", "y.pth does not exist; name a checkpoint file"),
        ("convert empty", "empty holds none of model.safetensors, model.safetensors.index.json, "),
        ("convert x.pth", "x.safetensors exists; remove it, or name the file to write with -o"),
        ("convert x.safetensors", "x.safetensors is safetensors already; there is nothing to convert"),
        (
            "convert x.pth -o y.bin",
            "y.bin does not end in .safetensors, by which the format is recognized; rename it",
        ),
        ("convert x.pth -o no/y.safetensors", "x.pth cannot be written as no/y.safetensors: No such file"),
        ("convert cut.pth", "cut.pth cannot be read as weights: "),
        ("verify -o y.safetensors", "-o belongs to 'modelzoo weights convert', not to verify"),
    ):
        code, out, err = called("weights", *words.split())
        assert (code, out, err.count("\n")) == (2, "", 1), words
        assert err.startswith(f"modelzoo: error: {message}"), words
    assert sorted(each.name for each in tmp_path.glob("*")) == ["cut.pth", "empty", "x.pth", "x.safetensors"]
    assert Path("x.safetensors").read_text() == "old"


def test_fetch_downloads_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint of the default options, or with --all that of every size."""
    fetched: list[str] = []
    monkeypatch.setattr(inventory.checkpoints, "fetch_checkpoint", lambda checkpoint: fetched.append(checkpoint.name))
    for words, count in (((), 1), (("--all",), 3)):
        assert called("weights", "fetch", "bert", *words).code == 0
        assert len(fetched) == count

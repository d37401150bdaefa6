"""Checkpoints: where they are looked for, how they are downloaded, and how damaged ones are detected."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from toy_workload import OPTIONS, STATE, hub, publish, toy_with

from modelzoo.errors import WeightsError
from modelzoo.frozen import replace
from modelzoo.workload import Checkpoint, checkpoints, weights
from modelzoo.workload.state import REPOSITORY_WEIGHTS


def test_the_hub_directory_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path is computed without torch, and equals torch's for every variable that sets it."""
    for name, value in (("TORCH_HOME", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")):
        monkeypatch.delenv("TORCH_HOME", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv(name, value)
        assert checkpoints._hub_directory() == Path(torch.hub.get_dir()) / "checkpoints"


def test_the_users_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MODELZOO_WEIGHTS is searched before the hub's cache."""
    cached, checkpoint = publish(hub())
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(own))
    assert checkpoints.find_checkpoint(checkpoint) == cached
    (own / cached.name).write_bytes(cached.read_bytes())
    assert checkpoints.find_checkpoint(checkpoint) == own / cached.name


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """Serve a directory on a local port; returns the directory and its URL."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: Any) -> None:
            pass

    folder = tmp_path / "published"
    folder.mkdir()
    monkeypatch.delenv("MODELZOO_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def test_a_download_with_the_wrong_checksum_is_refused(server: tuple[Path, str]) -> None:
    """A file that differs from the published one is refused, and nothing is left in the cache."""
    folder, address = server
    path, checkpoint = publish(folder)
    wrong = path.replace(path.with_name("toy-00000000.pth"))
    checkpoint = replace(checkpoint, source=f"{address}/{wrong.name}")
    with pytest.raises(WeightsError, match="cannot download toy weights: invalid hash value") as caught:
        checkpoints.fetch_checkpoint(checkpoint)
    assert "\n" not in str(caught.value)
    assert list(hub().iterdir()) == []


def test_a_download_that_is_not_there_is_one_sentence(server: tuple[Path, str]) -> None:
    """The message gives the HTTP error or refused connection; auto falls back to random weights."""
    _, address = server
    missing = Checkpoint("toy weights", f"{address}/toy-12345678.pth", 1)
    with pytest.raises(WeightsError, match="cannot download toy weights: HTTP Error 404"):
        checkpoints.fetch_checkpoint(missing)
    refused = Checkpoint("toy weights", "http://127.0.0.1:1/toy-12345678.pth", 1)
    found = weights.resolve_weights(toy_with(refused), OPTIONS, "auto", 0)
    assert found.kind == "random"
    assert found.problem == "cannot download toy weights: Connection refused"


@pytest.mark.parametrize("name", ["MODELZOO_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_tries_no_network(name: str, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Either variable disables downloads; 0 enables them."""
    folder, address = server
    path, checkpoint = publish(folder)
    checkpoint = replace(checkpoint, source=f"{address}/{path.name}")
    monkeypatch.setenv(name, "1")
    with pytest.raises(WeightsError, match="is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set"):
        checkpoints.fetch_checkpoint(checkpoint)
    monkeypatch.setenv(name, "0")
    assert checkpoints.fetch_checkpoint(checkpoint).is_file()


def test_a_download_is_checked_and_kept(server: tuple[Path, str]) -> None:
    """auto downloads into the hub's own cache, and finds the file there the second time."""
    folder, address = server
    path, checkpoint = publish(folder)
    work = toy_with(replace(checkpoint, source=f"{address}/{path.name}"))
    first, second = (weights.resolve_weights(work, OPTIONS, "auto", 0) for _ in range(2))
    assert (first.kind, second) == ("pretrained", first)
    assert Path(first.path) == hub() / path.name
    assert Path(first.path).read_bytes() == path.read_bytes()


def repository(folder: Path, name: str = "model.safetensors") -> Path:
    """Create a snapshot as in Hugging Face's cache: links to blobs named by their SHA-256."""
    from safetensors.torch import save_file

    blobs, snapshot = folder / "blobs", folder / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    save_file(STATE, blobs / "made")
    digest = hashlib.sha256((blobs / "made").read_bytes()).hexdigest()
    (blobs / "made").replace(blobs / digest)
    (snapshot / name).symlink_to(blobs / digest)
    (snapshot / "config.json").write_text("{}")
    return snapshot


MODEL = Checkpoint("someone/toy", "someone/toy", 1)


def test_a_cached_repository_is_found_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a blob is its checksum; an altered blob is reported."""
    snapshot = repository(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache",
        lambda repo, file: str(snapshot / file) if repo == "someone/toy" else None,
    )
    assert checkpoints.find_checkpoint(MODEL) == snapshot
    blob = (snapshot / "model.safetensors").resolve()
    digest = checkpoints.verify_checkpoint(MODEL, snapshot)
    assert digest == checkpoints.Checksum(blob.name, blob.name)
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="is damaged or altered"):
        weights.resolve_weights(toy_with(MODEL), OPTIONS, "auto", 0)


def test_a_repository_without_its_tensors_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config alone, as an interrupted download leaves it, is not a checkpoint."""
    snapshot = repository(tmp_path)
    (snapshot / "model.safetensors").unlink()
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file: str(snapshot / file))
    assert checkpoints.find_checkpoint(MODEL) is None


def files(*names: str) -> SimpleNamespace:
    """What the hub says about a repository that holds these files."""
    return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])


@pytest.mark.parametrize("name", REPOSITORY_WEIGHTS)
def test_a_repository_is_fetched_once_and_only_what_is_needed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one weights file is downloaded, preferably safetensors, and none for other frameworks."""
    monkeypatch.delenv("MODELZOO_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    snapshot = repository(tmp_path, name)
    requested: list[Any] = []

    class Hub:
        def model_info(self, repo: str, timeout: float) -> SimpleNamespace:
            return files("config.json", "tf_model.h5", "pytorch_model.bin", *{name} - {"pytorch_model.bin"})

    def download(repo: str, allow_patterns: list[str]) -> str:
        requested.append((repo, allow_patterns))
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert checkpoints.fetch_checkpoint(MODEL) == snapshot
    ((repo, patterns),) = requested
    assert repo == "someone/toy"
    assert [p for p in patterns if p not in checkpoints.REPOSITORY_FILES] == [name]


def test_a_repository_without_usable_tensors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository with weights for another framework only is an error."""
    monkeypatch.delenv("MODELZOO_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    class Hub:
        def model_info(self, repo: str, timeout: float) -> SimpleNamespace:
            return files("config.json", "tf_model.h5")

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    with pytest.raises(WeightsError, match="someone/toy holds none of model.safetensors, pytorch_model.bin"):
        checkpoints.fetch_checkpoint(MODEL)

"""Checkpoints: where they are looked for, how they are downloaded, and how damaged ones are detected."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from exportable_workloads import OPTIONS, STATE, hub, publish, toy_with
from fake_hub import COMMIT, FakeHub, serving
from safetensors.torch import save_file

from modelzoo.errors import DamagedWeightsError, UsageError, WeightsError
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
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(cached))
    with pytest.raises(UsageError, match="MODELZOO_WEIGHTS=.* is not a directory"):
        checkpoints.find_checkpoint(checkpoint)


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """Serve a hub on a local port."""
    with serving(monkeypatch, tmp_path / "huggingface") as found:
        yield found


def upload(served: FakeHub, folder: Path) -> tuple[str, Checkpoint]:
    """Publish a file under a name with its checksum; returns the name, too."""
    path, checkpoint = publish(folder)
    served.files[f"/{path.name}"] = path.read_bytes()
    return path.name, replace(checkpoint, source=f"{served.address}/{path.name}")


def test_a_download_with_the_wrong_checksum_is_refused(served: FakeHub, tmp_path: Path) -> None:
    """A file that differs from the published one is refused, and nothing is left in the cache."""
    name, checkpoint = upload(served, tmp_path)
    served.files["/toy-00000000.pth"] = served.files[f"/{name}"]
    wrong_name = replace(checkpoint, source=f"{served.address}/toy-00000000.pth")
    digest = hashlib.sha256(served.files[f"/{name}"]).hexdigest()
    forged = replace(checkpoint, sha256=digest[:8] + "0" * 56)
    for wrong in (wrong_name, forged):
        with pytest.raises(WeightsError, match="cannot download toy weights: invalid hash value") as caught:
            checkpoints.fetch_checkpoint(wrong)
        assert "\n" not in str(caught.value)
        assert list(hub().iterdir()) == []


def test_a_download_that_is_not_there_is_one_sentence(served: FakeHub) -> None:
    """The message gives the HTTP error or refused connection, and the variable that helps; auto goes on without."""
    missing = Checkpoint("toy weights", f"{served.address}/toy-12345678.pth", 1)
    with pytest.raises(WeightsError, match="^cannot download toy weights: HTTP Error 404: Not Found; set MODELZOO_WEI"):
        checkpoints.fetch_checkpoint(missing)
    refused = replace(missing, source="http://127.0.0.1:1/toy-12345678.pth")
    found = weights.resolve_weights(toy_with(refused), OPTIONS, "auto", 0)
    assert (found.kind, found.problem) == (
        "random",
        "cannot download toy weights: Connection refused; set MODELZOO_WEIGHTS to a directory that has "
        "toy-12345678.pth (docs/install.md)",
    )
    advice = "; set HF_ENDPOINT to a mirror of Hugging Face, or MODELZOO_WEIGHTS to a directory that has toy (docs"
    for download in (lambda: checkpoints.fetch_checkpoint(MODEL), lambda: checkpoints.find_config("someone/toy")):
        with pytest.raises(WeightsError, match=f"^cannot download .*someone/toy: .*{re.escape(advice)}"):
            download()


@pytest.mark.parametrize("name", ["MODELZOO_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_tries_no_network(name: str, served: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either variable disables downloads; 0 enables them."""
    _, checkpoint = upload(served, tmp_path)
    monkeypatch.setenv(name, "1")
    with pytest.raises(WeightsError, match="is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set"):
        checkpoints.fetch_checkpoint(checkpoint)
    assert served.requested == []
    monkeypatch.setenv(name, "0")
    assert checkpoints.fetch_checkpoint(checkpoint).is_file()


@pytest.mark.parametrize("digits", [8, 64])
def test_a_download_is_checked_and_kept(digits: int, served: FakeHub, tmp_path: Path) -> None:
    """auto downloads into the hub's own cache, and finds the file there the second time.

    How far it was compared is recorded: all digits, or those in the name.
    """
    name, checkpoint = upload(served, tmp_path)
    content = served.files[f"/{name}"]
    digest = hashlib.sha256(content).hexdigest()
    work = toy_with(replace(checkpoint, sha256=digest if digits == 64 else ""))
    first, second = (weights.resolve_weights(work, OPTIONS, "auto", 0) for _ in range(2))
    assert (first.kind, second, len(served.requested)) == ("pretrained", first, 1)
    assert Path(first.path) == hub() / name
    assert Path(first.path).read_bytes() == content
    assert (first.sha256, first.verification) == (digest, "full" if digits == 64 else "partial")


def repository(folder: Path) -> Path:
    """Create a snapshot as in Hugging Face's cache: links to blobs named by their SHA-256."""
    blobs, snapshot = folder / "blobs", folder / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    save_file(STATE, blobs / "made")
    digest = hashlib.sha256((blobs / "made").read_bytes()).hexdigest()
    (blobs / "made").replace(blobs / digest)
    (snapshot / "model.safetensors").symlink_to(blobs / digest)
    (snapshot / "config.json").write_text("{}")
    return snapshot


MODEL = Checkpoint("someone/toy", "someone/toy", 1)


def test_a_cached_repository_is_found_and_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a blob is the checksum that the hub gave: an altered blob is reported, but nothing shows more."""
    snapshot = repository(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache",
        lambda repo, file, revision: str(snapshot / file) if (repo, revision) == ("someone/toy", None) else None,
    )
    assert checkpoints.find_checkpoint(MODEL) == snapshot
    blob = (snapshot / "model.safetensors").resolve()
    assert checkpoints.verify_checkpoint(MODEL, snapshot) == checkpoints.Checksum(blob.name, "none", True)
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="is damaged or altered"):
        weights.resolve_weights(toy_with(MODEL), OPTIONS, "auto", 0)


def test_a_repository_without_its_tensors_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A config alone, as an interrupted download leaves it, is not a checkpoint."""
    snapshot = repository(tmp_path)
    (snapshot / "model.safetensors").unlink()
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file, revision: str(snapshot / file))
    assert checkpoints.find_checkpoint(MODEL) is None


@pytest.mark.parametrize("name", REPOSITORY_WEIGHTS)
def test_a_repository_is_fetched_once_and_only_what_is_needed(name: str, served: FakeHub) -> None:
    """Only one weights file is downloaded, preferably safetensors, and none for other frameworks."""
    shards = {"model-1.safetensors", "pytorch_model-1.bin"}
    names = {"config.json", "tf_model.h5", *REPOSITORY_WEIGHTS[REPOSITORY_WEIGHTS.index(name) :], *shards}
    own = {each for each in shards if name.endswith("index.json") and each[:5] == name[:5]}
    index = json.dumps({"weight_map": dict.fromkeys("ab", *own)}) if own else ""
    served.repositories["someone/toy", COMMIT] = {each: index.encode() or each.encode() for each in names}
    snapshot = checkpoints.fetch_checkpoint(MODEL)
    assert {each.name for each in snapshot.iterdir()} == {"config.json", name, *own}
    assert snapshot.name == COMMIT
    assert checkpoints.find_checkpoint(MODEL) == snapshot


def test_a_repository_without_usable_tensors_is_refused(served: FakeHub) -> None:
    """A repository with weights for another framework only is an error."""
    served.repositories["someone/toy", COMMIT] = {"config.json": b"{}", "tf_model.h5": b""}
    with pytest.raises(WeightsError, match="someone/toy holds none of model.safetensors, "):
        checkpoints.fetch_checkpoint(MODEL)


EARLIER = "ab" * 20


def upload_commits(served: FakeHub) -> None:
    """Publish two commits of a repository, whose weights are their names."""
    for commit in (COMMIT, EARLIER):
        served.repositories["someone/toy", commit] = {"config.json": b"{}", "model.safetensors": commit.encode()}


def test_a_repository_is_fetched_at_its_commit(served: FakeHub) -> None:
    """What the hub calls main today is neither downloaded nor found for a checkpoint that declares another commit."""
    upload_commits(served)
    pinned = replace(MODEL, commit=EARLIER)
    checkpoints.fetch_checkpoint(MODEL)
    assert checkpoints.find_checkpoint(pinned) is None
    snapshot = checkpoints.fetch_checkpoint(pinned)
    assert (snapshot / "model.safetensors").read_text() == EARLIER
    assert checkpoints.find_checkpoint(pinned) == snapshot


def test_a_checkpoint_is_pinned_from_the_hub_and_not_from_the_cache(served: FakeHub, tmp_path: Path) -> None:
    """The commit and the SHA-256 are those of a fresh download, which leaves no file behind."""
    content = b"published"
    served.repositories["someone/toy", COMMIT] = {"config.json": b"{}", "model.safetensors": content}
    digest = hashlib.sha256(content).hexdigest()
    assert checkpoints.pin_checkpoint(MODEL) == replace(MODEL, commit=COMMIT, sha256=digest)
    assert checkpoints.find_checkpoint(MODEL) is None
    name, checkpoint = upload(served, tmp_path)
    hub().mkdir(parents=True)
    (hub() / name).write_bytes(b"in the cache")
    pinned = checkpoints.pin_checkpoint(checkpoint)
    assert pinned == replace(checkpoint, sha256=hashlib.sha256(served.files[f"/{name}"]).hexdigest())
    assert checkpoints.pin_checkpoint(pinned) == pinned


def test_a_pin_is_never_replaced(served: FakeHub) -> None:
    """A commit that is declared stays, and other content under it is an error."""
    upload_commits(served)
    pinned = checkpoints.pin_checkpoint(replace(MODEL, commit=EARLIER))
    assert pinned == replace(MODEL, commit=EARLIER, sha256=hashlib.sha256(EARLIER.encode()).hexdigest())
    served.repositories["someone/toy", EARLIER]["model.safetensors"] = b"replaced"
    with pytest.raises(DamagedWeightsError) as caught:
        checkpoints.pin_checkpoint(pinned)
    assert str(caught.value) == (
        "someone/toy cannot be pinned: the SHA-256 of what someone/toy sent is not the declared one, or not the one "
        "that the hub states"
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sha256": "12345678"}, "sha256='12345678' of checkpoint toy is not 64 hexadecimal digits"),
        ({"sha256": "A" * 64}, f"sha256='{'A' * 64}' of checkpoint toy is not 64 hexadecimal digits"),
        ({"commit": "main"}, "commit='main' of checkpoint toy is not 40 hexadecimal digits"),
        ({"sha256": "0" * 64}, f"sha256='{'0' * 64}' of checkpoint toy is not that in the name toy-12345678.pth"),
        ({"commit": COMMIT}, "checkpoint toy is a file, which has no commit"),
    ],
)
def test_a_pin_that_cannot_be_right_is_refused(changes: dict[str, str], problem: str) -> None:
    """A truncated digest or a branch would otherwise pin less than it seems to."""
    source = "someone/toy" if changes.get("commit") == "main" else "https://host/toy-12345678.pth"
    with pytest.raises(UsageError) as caught:
        Checkpoint("toy", source, 1, **changes)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("name", "digest"),
    [("toy-12345678.pth", "12345678"), ("toy.pth", ""), ("toy-v3.pth", ""), ("toy-12345678.tar.gz", "12345678")],
)
def test_only_a_digest_in_a_name_is_one(name: str, digest: str) -> None:
    """A name without a digest is no digest that nothing has."""
    assert Checkpoint("toy", f"https://host/{name}", 1).digest == digest


def test_the_users_repository_is_checked_like_a_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in MODELZOO_WEIGHTS is compared with the declared SHA-256, and refused if it is another one."""
    file = tmp_path / "toy" / "model.safetensors"
    file.parent.mkdir()
    file.write_bytes((repository(tmp_path / "made") / "model.safetensors").read_bytes())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    found = weights.resolve_weights(toy_with(replace(MODEL, sha256=digest)), OPTIONS, "auto", 0)
    assert (found.path, found.sha256, found.verification) == (str(file.parent), digest, "full")
    forged = digest[:8] + "0" * 56
    with pytest.raises(DamagedWeightsError) as caught:
        weights.resolve_weights(toy_with(replace(MODEL, sha256=forged)), OPTIONS, "auto", 0)
    assert str(caught.value) == (
        f"{file} is damaged or altered: its SHA-256 begins {digest}, not {forged}; delete it and run 'modelzoo weights "
        f"fetch', or use it as your own with --weights {file}"
    )

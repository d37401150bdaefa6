"""Weights: where they are looked for, how they are fetched and checked, and what damaged ones are called."""

from __future__ import annotations

import functools
import hashlib
import http.server
import os
import pickle
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from modelzoo.errors import UsageError, WeightsError
from modelzoo.workload import declaration as workload
from modelzoo.workload import weights
from modelzoo.workload.declaration import InputRequest, Inputs, Option, Workload
from modelzoo.workload.weights import Checkpoint


def build(options: Mapping[str, Any]) -> Any:
    """One linear layer."""
    return torch.nn.Linear(options["width"], 2)


def make_inputs(request: InputRequest) -> Inputs:
    """Ones, as many as the option says."""
    return Inputs((torch.ones(1, request.options["width"]) * request.options["level"],), ("ones",))


def randomize(model: Any, inputs: Inputs, seed: int) -> None:
    """Fit the bias to the inputs, so that it shows which inputs were used."""
    model.bias.fill_(float(inputs.args[0].sum()))


TOY = Workload(
    "toy",
    "a toy",
    "rows",
    build,
    make_inputs,
    randomize=randomize,
    options=(Option("width", 3, "inputs", int), Option("level", 1, "value of inputs", int, is_input=True)),
)
OPTIONS = TOY.option_values({})
STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


@pytest.fixture(autouse=True)
def _own_hubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache of this machine is seen."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *args, **kwargs: None)


def publish(folder: Path, state: Any = None) -> tuple[Path, Checkpoint]:
    """Save a checkpoint as torchvision's hub names it, with its checksum, and the ``Checkpoint`` for it."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(STATE if state is None else state, folder / "toy.pth")
    digest = hashlib.sha256((folder / "toy.pth").read_bytes()).hexdigest()
    path = (folder / "toy.pth").replace(folder / f"toy-{digest[:8]}.pth")
    return path, Checkpoint("toy weights", f"http://127.0.0.1:1/{path.name}", 1)


def hub() -> Path:
    """The folder of torch's hub for these tests."""
    return Path(os.environ["TORCH_HOME"]) / "hub" / "checkpoints"


def toy_with(checkpoint: Checkpoint) -> Workload:
    """The toy with a published checkpoint."""
    return replace(TOY, checkpoint=lambda options: checkpoint)


# Where they are looked for


def test_the_hub_directory_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is worked out without importing torch, and agrees with torch for every way to set it."""
    for name, value in (("TORCH_HOME", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")):
        monkeypatch.delenv("TORCH_HOME", raising=False)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv(name, value)
        assert weights._hub_directory() == Path(torch.hub.get_dir()) / "checkpoints"


def test_the_users_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MODELZOO_WEIGHTS is looked into before the hub's cache, and the cache where it has nothing."""
    cached, checkpoint = publish(hub())
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(own))
    assert weights.find(checkpoint) == cached
    (own / cached.name).write_bytes(cached.read_bytes())
    assert weights.find(checkpoint) == own / cached.name


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_users_folder_that_is_none_is_an_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is never passed over silently."""
    place = tmp_path / "place"
    if kind == "file":
        place.write_text("")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(place))
    with pytest.raises(UsageError, match="MODELZOO_WEIGHTS=.* is not a directory"):
        weights.resolve(toy_with(publish(tmp_path)[1]), OPTIONS, "auto", 0)


def test_auto_takes_what_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached and whole: used, with its checksum, and no network is tried."""
    path, checkpoint = publish(hub())
    monkeypatch.setattr(weights, "fetch", None)
    found = weights.resolve(toy_with(checkpoint), OPTIONS, "auto", 0)
    assert (found.kind, found.path, found.name) == ("pretrained", str(path), "toy weights")
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    model = weights.load_model(toy_with(checkpoint), OPTIONS, found)
    assert model.state_dict()["weight"].equal(STATE["weight"])
    assert not model.training


def test_auto_falls_back_to_random_and_says_why(tmp_path: Path) -> None:
    """Not cached and offline: random weights whose reason is recorded."""
    found = weights.resolve(toy_with(publish(tmp_path)[1]), OPTIONS, "auto", 5)
    assert (found.kind, found.seed) == ("random", 5)
    assert "toy weights is not cached and MODELZOO_OFFLINE" in found.reason


def test_pretrained_never_falls_back(tmp_path: Path) -> None:
    """Asked for by name and not to be had: an error that says where to put them."""
    path, checkpoint = publish(tmp_path)
    with pytest.raises(WeightsError, match=f"not cached .* set MODELZOO_WEIGHTS=DIR to a folder with {path.name}"):
        weights.resolve(toy_with(checkpoint), OPTIONS, "pretrained", 0)
    with pytest.raises(WeightsError, match="no published checkpoint for toy; use --weights random or a path"):
        weights.resolve(TOY, OPTIONS, "pretrained", 0)


@pytest.mark.parametrize("damage", ["truncated", "altered"])
@pytest.mark.parametrize("source", ["auto", "pretrained"])
def test_a_damaged_cached_file_is_found_and_named(damage: str, source: str) -> None:
    """The checksum in the name finds both; not even auto runs random weights instead."""
    path, checkpoint = publish(hub())
    data = path.read_bytes()
    path.write_bytes(data[:-100] if damage == "truncated" else data[:200] + b"\x01" + data[201:])
    with pytest.raises(WeightsError, match="is damaged or altered: its SHA-256 begins") as caught:
        weights.resolve(toy_with(checkpoint), OPTIONS, source, 0)
    assert str(path) in str(caught.value)
    assert "modelzoo weights fetch" in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_a_path_without_weights_is_an_error(kind: str, tmp_path: Path) -> None:
    """What does not exist and what holds nothing are told apart."""
    if kind == "empty":
        (tmp_path / "x").mkdir()
    message = "it does not exist" if kind == "missing" else "it holds no weights"
    with pytest.raises(WeightsError, match=message):
        weights.resolve(TOY, OPTIONS, str(tmp_path / "x"), 0)


def test_a_path_is_used_as_it_is(tmp_path: Path) -> None:
    """A user's own file: its place, checksum and name are in the record."""
    path, _ = publish(tmp_path / "with space")
    found = weights.resolve(TOY, OPTIONS, str(path), 0)
    assert (found.kind, found.path, found.reason) == ("path", str(path), "named by --weights")
    assert weights.load_model(TOY, OPTIONS, found).state_dict()["bias"].equal(STATE["bias"])


# Fetching


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the local address under which its files can be downloaded."""

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


def test_a_download_is_checked_and_kept(server: tuple[Path, str]) -> None:
    """auto downloads into the hub's own cache; the second time it is found there."""
    folder, address = server
    path, checkpoint = publish(folder)
    work = toy_with(replace(checkpoint, source=f"{address}/{path.name}"))
    first, second = (weights.resolve(work, OPTIONS, "auto", 0) for _ in range(2))
    assert (first.kind, first.reason, second.reason) == ("pretrained", "downloaded", "found on this machine")
    assert Path(first.path) == hub() / path.name
    assert Path(first.path).read_bytes() == path.read_bytes()


def test_a_download_with_the_wrong_checksum_is_refused(server: tuple[Path, str]) -> None:
    """What came is not what was published: refused, and nothing is left in the cache."""
    folder, address = server
    path, checkpoint = publish(folder)
    wrong = path.replace(path.with_name("toy-00000000.pth"))
    checkpoint = replace(checkpoint, source=f"{address}/{wrong.name}")
    with pytest.raises(WeightsError, match="cannot download toy weights: invalid hash value") as caught:
        weights.fetch(checkpoint)
    assert "\n" not in str(caught.value)
    assert list(hub().iterdir()) == []


def test_a_download_that_is_not_there_is_one_sentence(server: tuple[Path, str]) -> None:
    """HTTP errors and refused connections are named; auto then runs random weights."""
    _, address = server
    missing = Checkpoint("toy weights", f"{address}/toy-12345678.pth", 1)
    with pytest.raises(WeightsError, match="cannot download toy weights: HTTP Error 404"):
        weights.fetch(missing)
    refused = Checkpoint("toy weights", "http://127.0.0.1:1/toy-12345678.pth", 1)
    found = weights.resolve(toy_with(refused), OPTIONS, "auto", 0)
    assert found.kind == "random"
    assert "cannot download toy weights: " in found.reason
    assert "refused" in found.reason


@pytest.mark.parametrize("name", ["MODELZOO_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_tries_no_network(name: str, server: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Either variable keeps the suite off the network; 0 means off."""
    folder, address = server
    path, checkpoint = publish(folder)
    checkpoint = replace(checkpoint, source=f"{address}/{path.name}")
    monkeypatch.setenv(name, "1")
    with pytest.raises(WeightsError, match="is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set"):
        weights.fetch(checkpoint)
    monkeypatch.setenv(name, "0")
    assert weights.fetch(checkpoint).is_file()


# Hugging Face repositories


def repository(folder: Path, name: str = "model.safetensors") -> Path:
    """A snapshot as Hugging Face's cache holds it: links to blobs named by their SHA-256."""
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
    """The blob's name is its checksum; an altered blob is named."""
    snapshot = repository(tmp_path)
    monkeypatch.setattr(
        "huggingface_hub.try_to_load_from_cache",
        lambda repo, file: str(snapshot / file) if repo == "someone/toy" else None,
    )
    assert weights.find(MODEL) == snapshot
    digest = weights.verify(MODEL, snapshot)
    assert (snapshot / "model.safetensors").resolve().name == digest
    blob = (snapshot / "model.safetensors").resolve()
    blob.write_bytes(blob.read_bytes()[:-1])
    with pytest.raises(WeightsError, match="is damaged or altered"):
        weights.resolve(toy_with(MODEL), OPTIONS, "auto", 0)


def test_a_repository_without_its_tensors_is_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted download leaves a config alone: that is no checkpoint."""
    snapshot = repository(tmp_path)
    (snapshot / "model.safetensors").unlink()
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda repo, file: str(snapshot / file))
    assert weights.find(MODEL) is None


@pytest.mark.parametrize("name", weights.REPOSITORY_WEIGHTS)
def test_a_repository_is_fetched_once_and_only_what_is_needed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file of tensors, safetensors where there is one; no copies in other frameworks' formats."""
    monkeypatch.delenv("MODELZOO_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    snapshot = repository(tmp_path, name)
    asked: list[Any] = []

    class Hub:
        def list_repo_files(self, repo: str) -> list[str]:
            return [
                "config.json",
                "tf_model.h5",
                "pytorch_model.bin",
                *([name] if name.endswith("safetensors") else []),
            ]

    def download(repo: str, allow_patterns: list[str]) -> str:
        asked.append((repo, allow_patterns))
        return str(snapshot)

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert weights.fetch(MODEL) == snapshot
    ((repo, patterns),) = asked
    assert repo == "someone/toy"
    assert [p for p in patterns if p not in weights.REPOSITORY_FILES] == [name]


def test_a_repository_without_usable_tensors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository for another framework only is named."""
    monkeypatch.delenv("MODELZOO_OFFLINE")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)

    class Hub:
        def list_repo_files(self, repo: str) -> list[str]:
            return ["config.json", "tf_model.h5"]

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    with pytest.raises(WeightsError, match="someone/toy holds none of model.safetensors, pytorch_model.bin"):
        weights.fetch(MODEL)


# Reading


class Payload:
    """What a malicious checkpoint would hold: unpickling it would make a file."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.place),))


def test_code_in_a_checkpoint_never_runs(tmp_path: Path) -> None:
    """A pickle with code, plain or in torch's format, is refused in one sentence and does nothing."""
    trap = tmp_path / "trap"
    plain, saved = tmp_path / "plain.pth", tmp_path / "saved.pth"
    plain.write_bytes(pickle.dumps({"weight": Payload(trap)}, protocol=2))
    torch.save({"weight": Payload(trap)}, saved)
    for path in (plain, saved):
        with pytest.raises(WeightsError, match="holds more than tensors \\(code in it was not run\\)") as caught:
            weights.read_state(path)
        assert "weights_only" not in str(caught.value), "never advise to switch the protection off"
        assert not trap.exists()
    torch.load(saved, weights_only=False)
    assert trap.exists(), "the trap works, so the test can fail"


def test_unreadable_files_are_named_with_the_reason(tmp_path: Path) -> None:
    """Truncated, empty, text, and safetensors cut short."""
    from safetensors.torch import save_file

    path, _ = publish(tmp_path)
    cut, empty, text, tensors = (tmp_path / n for n in ("cut.pth", "empty.pth", "text.pth", "cut.safetensors"))
    cut.write_bytes(path.read_bytes()[:-50])
    empty.write_bytes(b"")
    text.write_text("hello world")
    save_file(STATE, tensors)
    tensors.write_bytes(tensors.read_bytes()[:-1])
    for file, message in (
        (cut, "zip archive"),
        (empty, r"it is no checkpoint \(EOFError\)"),
        (text, "it is no checkpoint"),
        (tensors, "incomplete metadata|file not fully covered|header"),
    ):
        with pytest.raises(WeightsError, match=f"cannot be read as weights: .*({message})") as caught:
            weights.read_state(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [[1, 2], {"model": {"weight": torch.ones(1)}}, {"epoch": 3}])
def test_what_is_no_state_dict_is_refused(content: Any, tmp_path: Path) -> None:
    """Only names to tensors, or those under ``state_dict``, are taken."""
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(WeightsError, match="is no state dict"):
        weights.read_state(tmp_path / "x.pth")
    torch.save({"state_dict": STATE, "epoch": 3}, tmp_path / "y.pth")
    assert weights.read_state(tmp_path / "y.pth").keys() == STATE.keys()


def test_every_mismatch_is_named() -> None:
    """Missing, unknown and misshapen tensors: how many, the first of each, and the shapes."""
    model = torch.nn.Linear(3, 2)
    with pytest.raises(WeightsError) as caught:
        weights.fit(model, {"weight": torch.ones(2, 4), "scale": torch.ones(1)}, Path("x.pth"))
    assert str(caught.value) == (
        "x.pth does not fit the model: 1 tensors missing (first: bias); 1 unknown (first: scale); "
        "1 of another shape (first: weight is (2, 4), the model needs (2, 3)); give a checkpoint of this workload"
    )


def test_the_counter_of_old_batch_norms_may_be_missing() -> None:
    """Checkpoints of before torch 0.4.1 load: inference never reads that counter."""
    model = torch.nn.BatchNorm1d(2)
    state = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    weights.fit(model, state, Path("x.pth"))


@pytest.mark.parametrize(
    ("name", "file", "message"),
    [
        ("resnet50", "weights/classification/efficientnet-lite0-57934424.pth", "267 tensors missing .*247 unknown"),
        (
            "resnet50",
            "weights/classification/thin_resnet50_open_nsfw_fp16.safetensors",
            r"262 of another shape .*fc.bias",
        ),
        ("resnet50", "weights/bert/minilm-l6-squad", "267 tensors missing"),
        ("bert", "weights/classification/efficientnet-lite0-57934424.pth", "has no config.json"),
    ],
)
def test_a_checkpoint_of_another_architecture_is_refused(name: str, file: str, message: str, shared: Path) -> None:
    """Real checkpoints of other networks: what does not fit is named."""
    work = workload.load(workload.find(name))
    options = work.option_values({})
    found = weights.resolve(work, options, str(shared / file), 0)
    with pytest.raises(WeightsError, match=message):
        weights.load_model(work, options, found)


def test_bert_refuses_another_kind_of_model(tmp_path: Path) -> None:
    """Its config says what a directory holds."""
    from safetensors.torch import save_file

    work = workload.load(workload.find("bert"))
    save_file(STATE, tmp_path / "model.safetensors")
    for config, message in (
        ('{"model_type": "roberta"}', "holds a 'roberta' model, and this workload needs 'bert'"),
        ("not json", "config.json cannot be read"),
        ('{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}', "missing"),
    ):
        (tmp_path / "config.json").write_text(config)
        options = work.option_values({})
        with pytest.raises(WeightsError, match=message) as caught:
            weights.load_model(work, options, weights.resolve(work, options, str(tmp_path), 0))
        assert "\n" not in str(caught.value)


def test_bert_loads_a_trained_checkpoint(shared: Path) -> None:
    """The checkpoint's own config decides the size, and its tensors arrive in fp32."""
    work = workload.load(workload.find("bert"))
    options = work.option_values({})
    found = weights.resolve(work, options, str(shared / "weights/bert/minilm-l6-squad"), 0)
    model = weights.load_model(work, options, found)
    assert model.bert.config.num_hidden_layers == 6
    assert {p.dtype for p in model.parameters()} == {torch.float32}


# Random weights on disk


def test_random_weights_are_made_once_and_are_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same call reads the same file; another seed or another shape has its own."""
    first = weights.resolve(TOY, OPTIONS, "random", 0)
    monkeypatch.setattr(weights, "_randomized", lambda *args: pytest.fail("made again"))
    assert weights.resolve(TOY, OPTIONS, "random", 0) == first
    assert first.reason == "asked for by --weights random"
    monkeypatch.undo()
    other = weights.resolve(TOY, OPTIONS, "random", 1)
    wider = weights.resolve(TOY, TOY.option_values({"width": 4}), "random", 0)
    assert len({first.sha256, other.sha256, wider.sha256}) == 3
    assert len({first.path, other.path, wider.path}) == 3


def test_random_weights_are_remade_when_damaged_and_come_out_the_same() -> None:
    """A truncated file is replaced, by the very same weights."""
    first = weights.resolve(TOY, OPTIONS, "random", 0)
    path = Path(first.path)
    path.write_bytes(path.read_bytes()[:-3])
    assert weights.resolve(TOY, OPTIONS, "random", 0) == first
    assert weights.sha256(path) == first.sha256
    assert [p.name for p in path.parent.iterdir()] == [path.name], "no temporary file is left"


def test_random_weights_do_not_depend_on_options_of_the_inputs() -> None:
    """Whichever input size came first, the weights are those fitted to the default one."""
    large = weights.resolve(TOY, TOY.option_values({"level": "7"}), "random", 0)
    Path(large.path).unlink()
    default = weights.resolve(TOY, OPTIONS, "random", 0)
    assert (default.path, default.sha256) == (large.path, large.sha256)


def test_random_weights_of_a_changed_declaration_are_made_anew(tmp_path: Path) -> None:
    """An edited workload.py, or another one of the same name, never runs the old one's weights."""
    work = replace(TOY, directory=tmp_path)
    (tmp_path / "workload.py").write_text("# one")
    first = weights.resolve(work, OPTIONS, "random", 0)
    (tmp_path / "workload.py").write_text("# two")
    assert weights.resolve(work, OPTIONS, "random", 0).path != first.path


def test_random_weights_that_are_not_finite_are_an_error() -> None:
    """NaN is found when the weights are made, not by a number that looks too good."""
    broken = replace(TOY, randomize=lambda model, inputs, seed: model.bias.fill_(float("nan")))
    with pytest.raises(WeightsError, match="random weights of toy are not finite in bias"):
        weights.resolve(broken, OPTIONS, "random", 0)


def test_an_unwritable_cache_is_replaced_by_a_temporary_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only home does not stop a run; the place is in the record."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MODELZOO_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = weights.resolve(TOY, OPTIONS, "random", 0)
    assert Path(found.path).is_file()
    assert Path(found.path).is_relative_to(tmp_path)


# The table of ``modelzoo weights``


def test_the_table_lists_every_published_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both BERT sizes are there, a checkpoint that is here with its place and state, others as not here."""
    works = [workload.load(workload.find(name)) for name in workload.STANDARD]
    checkpoint = works[0].checkpoint({})
    assert checkpoint is not None
    (tmp_path / checkpoint.stem).write_text("x")
    monkeypatch.setenv("MODELZOO_WEIGHTS", str(tmp_path))
    rows = weights.table(works, lambda checkpoint, path: "here")
    assert [(row[0], row[3]) for row in rows] == [
        ("resnet50", "here"),
        ("ssd", "not here"),
        ("maskrcnn", "not here"),
        ("bert", "not here"),
        ("bert", "not here"),
    ]
    assert rows[0][4] == str(tmp_path / checkpoint.stem)

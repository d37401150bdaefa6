"""Where a model's weights come from: published and checksummed, the user's own, or seeded random.

Order of ``auto``: the folder named by MODELZOO_WEIGHTS, the hubs' caches, a download, and at last
random weights with a warning. Checkpoints are only ever read as safetensors or with
``weights_only=True``.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from modelzoo.errors import UsageError, WeightsError
from modelzoo.machine.directories import cache_directory
from modelzoo.records.workload import Weights, WeightsKind

if TYPE_CHECKING:
    from modelzoo.workload.declaration import Workload

SOURCES = ("auto", "pretrained", "random")
RECIPE = 3
"""Version of the random weights' recipe; raise it when ``modelzoo.workload.random_weights`` changes. A changed
``workload.py`` is seen by its checksum."""
NETWORK_TIMEOUT_SECONDS = 20
REPOSITORY_FILES = (
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
REPOSITORY_WEIGHTS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Checkpoint:
    """Published weights.

    ``source`` is a URL whose file name holds the first eight digits of its SHA-256 (torchvision's
    hub), or the id of a Hugging Face repository. ``quality`` is the published fp32 quality in percent.
    """

    name: str
    source: str
    megabytes: int
    quality: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return "://" in self.source

    @property
    def stem(self) -> str:
        """File name, or the last part of the repository's id: what MODELZOO_WEIGHTS is searched for."""
        return self.source.rsplit("/", 1)[-1]

    @property
    def digest(self) -> str:
        """First digits of the file's SHA-256, from its name; empty for a repository."""
        return self.stem.rsplit("-", 1)[-1].split(".")[0] if self.is_file else ""


def user_directory() -> Path | None:
    """The folder named by MODELZOO_WEIGHTS.

    Raises:
        UsageError: it is set to something that is no directory.
    """
    value = os.environ.get("MODELZOO_WEIGHTS")
    if not value:
        return None
    path = Path(value).expanduser()
    if not path.is_dir():
        raise UsageError(f"MODELZOO_WEIGHTS={value} is not a directory; set it to one or unset it")
    return path


def find(checkpoint: Checkpoint) -> Path | None:
    """The checkpoint's place on this machine (MODELZOO_WEIGHTS, then the caches), or ``None``."""
    own = user_directory()
    if own is not None and (own / checkpoint.stem).exists():
        return own / checkpoint.stem
    if checkpoint.is_file:
        cached = _hub_directory() / checkpoint.stem
        return cached if cached.is_file() else None
    return _cached_repository(checkpoint.source)


def _hub_directory() -> Path:
    # What torch.hub.get_dir() returns, without importing torch.
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def _cached_repository(repository: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json")
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if weights_file(folder) is not None else None


def weights_file(path: Path) -> Path | None:
    """The file that holds the tensors: ``path`` itself, or the one in a checkpoint directory."""
    if path.is_file():
        return path
    return next((path / name for name in REPOSITORY_WEIGHTS if (path / name).is_file()), None)


def is_offline() -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("MODELZOO_OFFLINE", "HF_HUB_OFFLINE"))


def fetch(checkpoint: Checkpoint) -> Path:
    """Download into the hub's own cache, with progress on stderr, and verify.

    Raises:
        WeightsError: no network, not found, or the checksum is wrong.
    """
    if is_offline():
        raise WeightsError(f"{checkpoint.name} is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set")
    try:
        path = _fetch_file(checkpoint) if checkpoint.is_file else _fetch_repository(checkpoint)
    except WeightsError:
        raise
    except Exception as error:  # every hub client has its own tree of network errors
        why = str(error).strip().splitlines()
        raise WeightsError(f"cannot download {checkpoint.name}: {why[0] if why else type(error).__name__}") from error
    verify(checkpoint, path)
    return path


def _fetch_file(checkpoint: Checkpoint) -> Path:
    import socket
    import sys

    import torch

    target = _hub_directory() / checkpoint.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT_SECONDS)
    try:
        # It checks the digest and moves the file into place only then.
        torch.hub.download_url_to_file(
            checkpoint.source, str(target), hash_prefix=checkpoint.digest, progress=sys.stderr.isatty()
        )
    finally:
        socket.setdefaulttimeout(before)
    return target


def _fetch_repository(checkpoint: Checkpoint) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    files = set(HfApi().list_repo_files(checkpoint.source))
    tensors = next((name for name in REPOSITORY_WEIGHTS if name in files), None)
    if tensors is None:
        raise WeightsError(f"{checkpoint.source} holds none of {', '.join(REPOSITORY_WEIGHTS)}")
    return Path(snapshot_download(checkpoint.source, allow_patterns=[*REPOSITORY_FILES, tensors]))


def verify(checkpoint: Checkpoint, path: Path) -> str:
    """Return the SHA-256 of the weights at ``path`` after holding it against what is published.

    A torchvision file is known by the digest in its name; a file in Hugging Face's cache by the name
    of the blob it links to, which is its SHA-256.

    Raises:
        WeightsError: the file is missing, truncated or altered.
    """
    tensors = weights_file(path)
    if tensors is None:
        raise WeightsError(f"{path} holds no weights (looked for {', '.join(REPOSITORY_WEIGHTS)})")
    digest = sha256(tensors)
    blob = tensors.resolve().name
    known = checkpoint.digest or (blob if len(blob) == 64 else "")
    if known and not digest.startswith(known):
        raise WeightsError(
            f"{tensors} is damaged or altered: its SHA-256 begins {digest[:8]}, published is {known[:8]}; delete it "
            "and run 'modelzoo weights fetch'"
        )
    return digest


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 22), b""):
            digest.update(block)
    return digest.hexdigest()


def resolve(workload: Workload, options: Mapping[str, Any], source: str, seed: int) -> Weights:
    """Find, fetch or make the weights for a workload; the result names a place on this machine.

    Raises:
        WeightsError: ``source`` is ``pretrained`` and cannot be had, or is a path that does not exist.
    """
    checkpoint = workload.checkpoint(options)
    if source not in SOURCES:
        path = Path(source).expanduser()
        tensors = weights_file(path) if path.exists() else None
        if tensors is None:
            what = "holds no weights" if path.exists() else "does not exist"
            raise WeightsError(f"--weights {source}: it {what}; give {', '.join(SOURCES)}, a file or a directory")
        return Weights(WeightsKind.PATH, path.name, str(path.resolve()), sha256(tensors), "named by --weights")
    reason = "asked for by --weights random"
    if source != "random":
        if checkpoint is None:
            reason = f"no published checkpoint for {workload.name}"
            if source == "pretrained":
                raise WeightsError(f"{reason}; use --weights random or a path")
        else:
            try:
                path_or_none = find(checkpoint)
                path = path_or_none if path_or_none is not None else fetch(checkpoint)
                where = "found on this machine" if path_or_none is not None else "downloaded"
                return Weights(WeightsKind.PRETRAINED, checkpoint.name, str(path), verify(checkpoint, path), where)
            except WeightsError as error:
                # A damaged file is the user's to know about; only absence falls back to random.
                if source == "pretrained" or "damaged" in str(error):
                    raise WeightsError(
                        f"{error}; set MODELZOO_WEIGHTS=DIR to a folder with {checkpoint.stem}"
                    ) from error
                reason = str(error)
    return _random(workload, options, seed, reason)


def _random(workload: Workload, options: Mapping[str, Any], seed: int, reason: str) -> Weights:
    """Seeded weights, made once and kept as a file so that every process runs the same."""
    import torch

    # What changes the inputs only must not change the weights, which are fitted to inputs: its default serves all.
    options = {**options, **{option.name: option.default for option in workload.options if option.is_input}}
    words = "".join(f"-{o.name}{options[o.name]}" for o in workload.options if not o.is_input)
    declaration = workload.directory / "workload.py"
    recipe = f"r{RECIPE}" + (f".{sha256(declaration)[:8]}" if declaration.is_file() else "")
    name = f"{workload.name}{words}-seed{seed}-torch{torch.__version__}-{recipe}"
    file = re.sub(r"[^\w.-]", "_", name) + ".safetensors"
    place = _writable(cache_directory() / "random") / file
    if not _is_readable(place):
        _save(_randomized(workload, options, seed), place)
    return Weights(WeightsKind.RANDOM, f"seed {seed}", str(place), sha256(place), reason, seed)


def _writable(directory: Path) -> Path:
    """``directory``, or a temporary one where that cannot be written (a read-only root, say)."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        fallback = Path(tempfile.gettempdir()) / f"modelzoo-{os.getuid()}"
        fallback.mkdir(parents=True, exist_ok=True)
        return fallback


def _is_readable(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _randomized(workload: Workload, options: Mapping[str, Any], seed: int) -> Any:
    import torch

    from modelzoo.workload.declaration import InputRequest

    torch.manual_seed(seed)
    model = workload.build(options).eval()
    if workload.randomize is not None:
        inputs = workload.inputs(InputRequest(1, seed, None, options))
        with torch.inference_mode(False), torch.no_grad():
            workload.randomize(model, inputs, seed)
    for key, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise WeightsError(f"random weights of {workload.name} are not finite in {key}: report this as a bug")
    return model


def _save(model: Any, path: Path) -> None:
    from safetensors.torch import save_file

    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    os.close(handle)
    save_file({k: v.contiguous().clone() for k, v in model.state_dict().items()}, temporary)
    Path(temporary).replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """Tensors by name from a ``.safetensors`` file, or a pickle with ``weights_only=True``.

    Raises:
        WeightsError: the file is truncated, altered or holds more than tensors.
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(str(path)))
        state = torch.load(str(path), map_location="cpu", weights_only=True)
    except Exception as error:  # pickle, zip and safetensors each raise their own
        raise WeightsError(
            f"{path} cannot be read as weights: {_why(error)}; fetch it again, or name another file"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(hasattr(value, "shape") for value in state.values()):
        raise WeightsError(f"{path} is no state dict (names to tensors); save model.state_dict()")
    return state


def _why(error: Exception) -> str:
    """A reader's error in one line, without torch's advice to switch the protection off."""
    if isinstance(error, pickle.UnpicklingError):
        return "it is no checkpoint, or holds more than tensors (code in it was not run)"
    line = (str(error).strip().splitlines() or [""])[0]
    return line if " " in line else f"it is no checkpoint ({type(error).__name__})"


def fit(model: Any, state: Mapping[str, Any], path: Path) -> None:
    """Load ``state`` into ``model``; every name and shape must match.

    Raises:
        WeightsError: names the first mismatches, and how many there are.
    """
    own = model.state_dict()
    # Checkpoints of before torch 0.4.1 lack this counter, which inference never reads.
    own_names = {name for name in own if not name.endswith("num_batches_tracked")}
    names = {name for name in state if not name.endswith("num_batches_tracked")}
    missing, unknown = sorted(own_names - names), sorted(names - own_names)
    wrong = [n for n in sorted(own_names & names) if tuple(own[n].shape) != tuple(state[n].shape)]
    if missing or unknown or wrong:
        parts = [f"{len(missing)} tensors missing (first: {missing[0]})"] if missing else []
        parts += [f"{len(unknown)} unknown (first: {unknown[0]})"] if unknown else []
        parts += (
            [
                f"{len(wrong)} of another shape (first: {wrong[0]} is {tuple(state[wrong[0]].shape)}, the model "
                f"needs {tuple(own[wrong[0]].shape)})"
            ]
            if wrong
            else []
        )
        raise WeightsError(f"{path} does not fit the model: {'; '.join(parts)}; give a checkpoint of this workload")
    model.load_state_dict({name: state[name] for name in names}, strict=False)


def load_model(workload: Workload, options: Mapping[str, Any], weights: Weights) -> Any:
    """The model in eval mode on the CPU, with ``weights`` in it."""
    path = Path(weights.path)
    if weights.kind != WeightsKind.RANDOM and workload.load is not None:
        return workload.load(options, path).eval()
    tensors = weights_file(path)
    assert tensors is not None
    model = workload.build(options).eval()
    fit(model, read_state(tensors), tensors)
    return model


def table(workloads: list[Workload], checks: Callable[[Checkpoint, Path], str]) -> list[tuple[str, ...]]:
    """Rows (workload, checkpoint, megabytes, state, place) for ``modelzoo weights list|verify``."""
    rows: list[tuple[str, ...]] = []
    for workload in workloads:
        for values in variants(workload):
            checkpoint = workload.checkpoint(values)
            if checkpoint is None:
                continue
            path = find(checkpoint)
            state = "not here" if path is None else checks(checkpoint, path)
            rows.append(
                (
                    workload.name,
                    checkpoint.name,
                    f"{checkpoint.megabytes}",
                    state,
                    str(path or checkpoint.source),
                )
            )
    return rows


def variants(workload: Workload) -> list[dict[str, Any]]:
    """Option values that select a checkpoint: the defaults, and each choice of each option."""
    variants = [workload.option_values({})]
    for option in workload.options:
        for choice in option.choices or ():
            if choice != option.default:
                variants.append(workload.option_values({option.name: choice}))
    seen: dict[str, dict[str, Any]] = {}
    for values in variants:
        checkpoint = workload.checkpoint(values)
        if checkpoint is not None:
            seen.setdefault(checkpoint.source, values)
    return list(seen.values())

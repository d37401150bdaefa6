"""Published checkpoints: find them on this machine, download them, and verify their checksums."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from modelzoo.errors import DamagedWeightsError, UsageError, WeightsError
from modelzoo.files import file_sha256
from modelzoo.workload.state import REPOSITORY_WEIGHTS, weights_file

NETWORK_TIMEOUT_SECONDS = 20
REPOSITORY_FILES = (
    "config.json",
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
"""What is downloaded from a Hugging Face repository beside the weights."""
SHA256_DIGITS = 64


class Checkpoint(msgspec.Struct, frozen=True):
    """Published weights.

    Attributes:
        name: what the table and the result call it.
        source: a URL whose file name ends in the first digits of its SHA-256, as in torchvision's hub
            (``resnet50-11ad3fa6.pth``), or the id of a Hugging Face repository.
        megabytes: size of the download.
        quality: published fp32 quality by metric, in percent.
    """

    name: str
    source: str
    megabytes: int
    quality: Mapping[str, float] = msgspec.field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        """Whether ``source`` is the URL of a file; otherwise it is a Hugging Face repository."""
        return "://" in self.source

    @property
    def stem(self) -> str:
        """File name, or last part of the repository's id: the name that is looked up in MODELZOO_WEIGHTS."""
        return self.source.rsplit("/", 1)[-1]

    @property
    def digest(self) -> str:
        """First digits of the file's SHA-256, from its name; empty for a repository."""
        return self.stem.rsplit("-", 1)[-1].split(".")[0] if self.is_file else ""


class Checksum(msgspec.Struct, frozen=True):
    """The checksum of weights on this machine.

    Attributes:
        sha256: SHA-256 of the file that holds the tensors, hexadecimal.
        published: the digits of it that are published and were compared: all 64, the first few (a partial match), or
            none.
    """

    sha256: str
    published: str


def find_checkpoint(checkpoint: Checkpoint) -> Path | None:
    """Return the checkpoint's path on this machine, or ``None`` if it is not here.

    MODELZOO_WEIGHTS is searched first, then the cache of torch's hub or of Hugging Face.

    Raises:
        UsageError: MODELZOO_WEIGHTS is not a directory.
    """
    directory = _user_directory()
    if directory is not None and (directory / checkpoint.stem).exists():
        return directory / checkpoint.stem
    if checkpoint.is_file:
        cached = _hub_directory() / checkpoint.stem
        return cached if cached.is_file() else None
    return _cached_repository(checkpoint.source)


def _user_directory() -> Path | None:
    value = os.environ.get("MODELZOO_WEIGHTS")
    if not value:
        return None
    path = Path(value).expanduser()
    if not path.is_dir():
        raise UsageError(f"MODELZOO_WEIGHTS={value} is not a directory; set it to one or unset it")
    return path


def _hub_directory() -> Path:
    # What torch.hub.get_dir() returns, without importing torch.
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def _cached_repository(repository: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json")
    if not isinstance(config, str):
        return None
    directory = Path(config).parent
    return directory if weights_file(directory) is not None else None


def fetch_checkpoint(checkpoint: Checkpoint) -> Path:
    """Download a checkpoint into the hub's own cache, with progress on stderr, and verify it.

    Returns:
        The file, or the directory of the repository's snapshot.

    Raises:
        WeightsError: the download is not possible, or its checksum is wrong.
    """
    if _is_offline():
        raise WeightsError(f"{checkpoint.name} is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set")
    try:
        path = _fetch_file(checkpoint) if checkpoint.is_file else _fetch_repository(checkpoint)
    except WeightsError:
        raise
    except Exception as error:  # every hub client has its own hierarchy of network errors
        raise WeightsError(f"cannot download {checkpoint.name}: {_reason(error)}") from error
    verify_checkpoint(checkpoint, path)
    return path


def _reason(error: Exception) -> str:
    """Why a download failed. urllib hides it: ``<urlopen error [Errno -2] Name or service not known>``."""
    from urllib.error import URLError

    cause = error.reason if type(error) is URLError else error
    lines = (getattr(cause, "strerror", None) or str(cause)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _is_offline() -> bool:
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("MODELZOO_OFFLINE", "HF_HUB_OFFLINE"))


def _fetch_file(checkpoint: Checkpoint) -> Path:
    import socket
    import sys

    import torch

    target = _hub_directory() / checkpoint.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT_SECONDS)
    try:
        # It checks the digest before it moves the file into place.
        torch.hub.download_url_to_file(
            checkpoint.source, str(target), hash_prefix=checkpoint.digest, progress=sys.stderr.isatty()
        )
    finally:
        socket.setdefaulttimeout(before)
    return target


def _fetch_repository(checkpoint: Checkpoint) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    # Unlike list_repo_files, this does not repeat the request for half a minute on a machine without network access.
    found = HfApi().model_info(checkpoint.source, timeout=NETWORK_TIMEOUT_SECONDS)
    files = {each.rfilename for each in found.siblings or ()}
    weights = next((name for name in REPOSITORY_WEIGHTS if name in files), None)
    if weights is None:
        raise WeightsError(f"{checkpoint.source} holds none of {', '.join(REPOSITORY_WEIGHTS)}")
    return Path(snapshot_download(checkpoint.source, allow_patterns=[*REPOSITORY_FILES, weights]))


def verify_checkpoint(checkpoint: Checkpoint, path: Path) -> Checksum:
    """Compare the checksum of the weights at ``path`` with the published one, and return it.

    The name of a torchvision file holds the first digits of its SHA-256. A file in Hugging Face's cache is a link to
    a blob whose name is its SHA-256. Other files have no published checksum.

    Raises:
        DamagedWeightsError: the file is truncated or altered.
        WeightsError: there is no weights file at ``path``.
    """
    file = weights_file(path)
    if file is None:
        raise WeightsError(f"{path} holds no weights (looked for {', '.join(REPOSITORY_WEIGHTS)})")
    digest = file_sha256(file)
    blob = file.resolve().name
    published = checkpoint.digest or (blob if len(blob) == SHA256_DIGITS else "")
    if published and not digest.startswith(published):
        raise DamagedWeightsError(
            f"{file} is damaged or altered: its SHA-256 begins {digest[:8]}, published is {published[:8]}; delete it "
            "and run 'modelzoo weights fetch'"
        )
    return Checksum(digest, published)

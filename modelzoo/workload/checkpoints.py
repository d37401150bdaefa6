"""Published checkpoints: find them on this machine, download them, and verify their checksums."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import DamagedWeightsError, UsageError, WeightsError, first_line
from modelzoo.files import file_sha256
from modelzoo.frozen import replace
from modelzoo.records.workload import Verification
from modelzoo.workload.state import INDEX, REPOSITORY_WEIGHTS, SHORTEST_DIGEST, weights_files, weights_sha256

OFFLINE = ("MODELZOO_OFFLINE", "HF_HUB_OFFLINE")
"""Variables each of which rules out downloads."""
NETWORK_TIMEOUT_SECONDS = 20
CONFIG = "config.json"
REPOSITORY_FILES = (
    *(CONFIG, "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.txt", "vocab.json", "merges.txt"),
    *("spiece.model", "sentencepiece.bpe.model", "tokenizer.model"),
)
"""What is downloaded from a Hugging Face repository beside the weights."""
SHA256_DIGITS = 64
COMMIT_DIGITS = 40


class Checkpoint(msgspec.Struct, frozen=True):
    """Published weights.

    Attributes:
        name: what the table and the result call it.
        source: a URL, or the id of a Hugging Face repository. A file name may end in the first digits of its SHA-256,
            as in torchvision's hub (``resnet50-11ad3fa6.pth``).
        megabytes: size of the download; ``None`` if it is not known.
        quality: published fp32 quality by metric, in percent.
        commit: the revision of the repository, 40 hexadecimal digits. If it is empty, the one that the hub calls
            ``main`` when it is asked.
        sha256: SHA-256 of the file that holds the tensors, or ``weights_sha256`` of its shards, 64 hexadecimal
            digits; empty if nobody has pinned it. ``modelzoo weights pin`` prints both.

    Raises:
        UsageError: ``commit`` or ``sha256`` is not what its name says, or contradicts ``source``.
    """

    name: str
    source: str
    megabytes: int | None
    quality: Mapping[str, float] = msgspec.field(default_factory=dict)
    commit: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        for name, digits in (("commit", COMMIT_DIGITS), ("sha256", SHA256_DIGITS)):
            value = getattr(self, name)
            if value and not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
                raise UsageError(f"{name}={value!r} of checkpoint {self.name} is not {digits} hexadecimal digits")
        if self.commit and self.is_file:
            raise UsageError(f"checkpoint {self.name} is a file, which has no commit")
        if self.sha256 and not self.sha256.startswith(self._digits_in_name):
            raise UsageError(f"sha256={self.sha256!r} of checkpoint {self.name} is not that in the name {self.stem}")

    @property
    def size(self) -> str:
        """Of the download, for messages."""
        return "size unknown" if self.megabytes is None else f"{self.megabytes} MB"

    @property
    def is_file(self) -> bool:
        """Whether ``source`` is the URL of a file; otherwise it is a Hugging Face repository."""
        return "://" in self.source

    @property
    def stem(self) -> str:
        """File name, or last part of the repository's id: the name that is looked up in MODELZOO_WEIGHTS."""
        return self.source.rsplit("/", 1)[-1]

    @property
    def advice(self) -> str:
        """What to set if it cannot be downloaded: only the client of Hugging Face knows a variable for a mirror."""
        mirror = "" if self.is_file or is_offline() else "HF_ENDPOINT to a mirror of Hugging Face, or "
        return f"set {mirror}MODELZOO_WEIGHTS to a directory that has {self.stem} (docs/install.md)"

    @property
    def digest(self) -> str:
        """The digits of the SHA-256 that are known: all 64, the first ones (from the file's name), or none."""
        return self.sha256 or self._digits_in_name

    @property
    def _digits_in_name(self) -> str:
        found = re.search(f"-([0-9a-f]{{{SHORTEST_DIGEST},{SHA256_DIGITS}}})\\.", self.stem) if self.is_file else None
        return found[1] if found else ""


class Checksum(msgspec.Struct, frozen=True):
    """The checksum of weights on this machine.

    Attributes:
        sha256: SHA-256 of the file that holds the tensors, hexadecimal.
        verification: whether it was compared with all 64 digits that the checkpoint declares, the first few, or none.
        is_as_downloaded: whether the file lies in Hugging Face's cache under this SHA-256, which the hub gave when it
            was downloaded.
    """

    sha256: str
    verification: Verification
    is_as_downloaded: bool = False


def find_checkpoint(checkpoint: Checkpoint) -> Path | None:
    """Return the checkpoint's path on this machine, or ``None`` if it is not here.

    MODELZOO_WEIGHTS is searched first, then the cache of torch's hub or of Hugging Face.

    Raises:
        UsageError: MODELZOO_WEIGHTS is not a directory.
    """
    if value := os.environ.get("MODELZOO_WEIGHTS"):
        directory = Path(value).expanduser()
        if not directory.is_dir():
            raise UsageError(f"MODELZOO_WEIGHTS={value} is not a directory; set it to one or unset it")
        if (directory / checkpoint.stem).exists():
            return directory / checkpoint.stem
    if checkpoint.is_file:
        cached = _hub_directory() / checkpoint.stem
        return cached if cached.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(checkpoint.source, CONFIG, revision=checkpoint.commit or None)
    if not isinstance(config, str):
        return None
    directory = Path(config).parent
    with contextlib.suppress(WeightsError):  # an interrupted download lacks shards
        return directory if weights_files(directory) else None
    return None


def _hub_directory() -> Path:
    # What torch.hub.get_dir() returns, without importing torch.
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torch"
    return Path(home).expanduser() / "hub" / "checkpoints"


def fetch_checkpoint(checkpoint: Checkpoint) -> Path:
    """Download a checkpoint into the hub's own cache, with progress on stderr, and verify it.

    Returns:
        The file, or the directory of the repository's snapshot.

    Raises:
        WeightsError: the download is not possible, or its checksum is wrong.
    """
    try:
        if is_offline():
            raise WeightsError(f"{checkpoint.name} is not cached and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set")
        path = _download(checkpoint)
    except WeightsError as error:
        raise WeightsError(f"{error}; {checkpoint.advice}") from error
    verify_checkpoint(checkpoint, path)
    return path


def pin_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """Download a checkpoint anew, and return it with its commit and the SHA-256 of its tensors' file.

    Neither is taken from this machine's caches. A commit or a SHA-256 that is declared already is kept.

    Raises:
        WeightsError: the download is not possible, or what the hub sends is not what is declared.
    """
    import tempfile

    if is_offline():
        raise WeightsError(f"{checkpoint.name} cannot be pinned: MODELZOO_OFFLINE or HF_HUB_OFFLINE is set")
    with tempfile.TemporaryDirectory(prefix="modelzoo-pin-") as directory:
        path = _download(checkpoint, Path(directory))
        try:
            sha256 = verify_checkpoint(checkpoint, path).sha256
        except DamagedWeightsError as error:
            raise DamagedWeightsError(
                f"{checkpoint.name} cannot be pinned: the SHA-256 of what {checkpoint.source} sent is not the declared "
                "one, or not the one that the hub states"
            ) from error
    return replace(checkpoint, sha256=sha256, commit="" if checkpoint.is_file else path.name)


def _download(checkpoint: Checkpoint, directory: Path | None = None) -> Path:
    """Download to ``directory``, by default the hub's own cache; returns the file or the repository's snapshot."""
    try:
        return _fetch_file(checkpoint, directory) if checkpoint.is_file else _fetch_repository(checkpoint, directory)
    except WeightsError:
        raise
    except Exception as error:  # every hub client has its own hierarchy of network errors
        raise WeightsError(f"cannot download {checkpoint.name}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Why a download failed. urllib hides it: ``<urlopen error [Errno -2] Name or service not known>``, httpx half."""
    from urllib.error import URLError

    cause: Any = error.reason if type(error) is URLError else error
    return re.sub(r"^\[Errno -?\d+\] ", "", getattr(cause, "strerror", None) or first_line(cause)).rstrip(".")


def is_offline(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the user has ruled out downloads, by one of ``OFFLINE``."""
    return any(environ.get(name, "0") not in ("", "0") for name in OFFLINE)


def _fetch_file(checkpoint: Checkpoint, directory: Path | None) -> Path:
    import socket
    import sys

    import torch

    target = (directory or _hub_directory()) / checkpoint.stem
    target.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT_SECONDS)
    try:
        # It checks the digest before it moves the file into place.
        torch.hub.download_url_to_file(
            checkpoint.source, str(target), hash_prefix=checkpoint.digest or None, progress=sys.stderr.isatty()
        )
    finally:
        socket.setdefaulttimeout(before)
    return target


def _fetch_repository(checkpoint: Checkpoint, directory: Path | None) -> Path:
    from huggingface_hub import HfApi, snapshot_download

    revision = checkpoint.commit or None
    # Unlike list_repo_files, this does not repeat the request for half a minute on a machine without network access.
    found = HfApi().model_info(checkpoint.source, revision=revision, timeout=NETWORK_TIMEOUT_SECONDS)
    files = {each.rfilename for each in found.siblings or ()}
    weights = next((name for name in REPOSITORY_WEIGHTS if name in files), None)
    if weights is None:
        raise WeightsError(f"{checkpoint.source} holds none of {', '.join(REPOSITORY_WEIGHTS)}")
    patterns = [*REPOSITORY_FILES, weights]
    if weights.endswith(INDEX):  # it names files such as model-*.safetensors
        name, _, suffix = weights.removesuffix(INDEX).rpartition(".")
        patterns.append(f"{name}-*.{suffix}")
    found = snapshot_download(checkpoint.source, revision=revision, cache_dir=directory, allow_patterns=patterns)
    return Path(found)


def find_config(repository: str) -> Path:
    """Return the directory with the ``config.json`` of a Hugging Face repository; it is downloaded if it is not here.

    Raises:
        UsageError: ``repository`` is not an id.
        WeightsError: it is not here, and cannot be downloaded.
    """
    if not re.fullmatch(r"[\w][\w.-]*(/[\w][\w.-]*)?", repository):
        raise UsageError(f"{repository!r} is neither a directory with a config.json nor an id such as google/vit-base")
    checkpoint = Checkpoint(repository, repository, None)
    if (found := find_checkpoint(checkpoint)) is not None:
        return found
    if is_offline():
        raise WeightsError(
            f"{repository} is not on this machine, and MODELZOO_OFFLINE or HF_HUB_OFFLINE is set; give its directory "
            "as hf:DIR"
        )
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, CONFIG, etag_timeout=NETWORK_TIMEOUT_SECONDS)).parent
    except Exception as error:  # every hub client has its own hierarchy of network errors
        raise WeightsError(
            f"cannot download the config of {repository}: {_reason(error)}; {checkpoint.advice}"
        ) from error


def verify_checkpoint(checkpoint: Checkpoint, path: Path) -> Checksum:
    """Compare the SHA-256 of the weights at ``path`` with what is known of it, and return it.

    The checkpoint declares it, whole or its first digits. A file in Hugging Face's cache is also a link to a blob whose
    name is the SHA-256 that the hub gave; it shows that the file is as it was downloaded, not what was downloaded.

    Raises:
        DamagedWeightsError: the file is truncated or altered, or is another one.
        WeightsError: there is no weights file at ``path``.
    """
    files = weights_files(path)
    if not files:
        raise WeightsError(f"{path} holds no weights (looked for {', '.join(REPOSITORY_WEIGHTS)})")
    sha256, is_one = weights_sha256(files), len(files) == 1
    blobs = [(file, file.resolve().name) for file in files]
    kept = [each for each in blobs if re.fullmatch(f"[0-9a-f]{{{SHA256_DIGITS}}}", each[1])]
    for file, known in ((files[0] if is_one else path, checkpoint.digest), *kept):
        digest = file_sha256(file) if file.is_file() and not is_one else sha256
        if not digest.startswith(known):
            shown = SHORTEST_DIGEST if digest[:SHORTEST_DIGEST] != known[:SHORTEST_DIGEST] else SHA256_DIGITS
            raise DamagedWeightsError(
                f"{file} is damaged or altered: its SHA-256 begins {digest[:shown]}, not {known[:shown]}; "
                f"delete it and run 'modelzoo weights fetch', or use it as your own with --weights {file}"
            )
    extent: dict[int, Verification] = {0: "none", SHA256_DIGITS: "full"}
    return Checksum(sha256, extent.get(len(checkpoint.digest), "partial"), is_as_downloaded=bool(kept))

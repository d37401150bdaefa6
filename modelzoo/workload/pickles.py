"""Which pickled checkpoints ``torch.load(weights_only=True)`` may be given; what it may not is refused before loading.

Its protection has had two holes, and the suite runs torch releases that have them:

- Below 2.6 it hands a TorchScript archive to ``torch.jit.load`` and unpacks legacy tar files (CVE-2025-32434). Neither
  is ever a state dict, so both are refused on every release.
- Below 2.10 a crafted pickle can corrupt memory in its unpickler (CVE-2026-24747). There a pickle is refused unless its
  SHA-256 begins with digits that a workload publishes. Eight digits, as in torchvision's file names, are a partial
  match: they detect accidents, and make a forgery cost some 2**32 attempts.

Pre-releases of 2.10.0, which source builds call themselves, may lack the correction and count as older.
"""

from __future__ import annotations

import mmap
import re
import shlex
import tarfile
from collections.abc import Collection
from pathlib import Path

from modelzoo.errors import WeightsError
from modelzoo.files import file_sha256

CORRECTED = (2, 10)
"""The first release of torch whose unpickler is not known to be vulnerable."""
ZIP_MAGIC = b"PK\x03\x04"
"""How a file starts that torch reads as a zip archive (``_is_zipfile`` in ``torch/serialization.py``)."""
TORCHSCRIPT_RECORD = b"constants.pkl"
"""torch takes a zip archive for TorchScript if it has this record (``_is_torchscript_zip``, all releases since 1.4)."""
SHORTEST_DIGEST = 8
"""Hexadecimal digits that a published digest has at least: those in the file names of torchvision's hub."""


def refuse_unsafe(path: Path, torch_version: str, published: Collection[str] = ()) -> None:
    """Check that ``torch.load(weights_only=True)`` runs no code from the file ``path``.

    Args:
        path: a checkpoint, not in the safetensors format.
        torch_version: ``torch.__version__``.
        published: SHA-256 digests of published checkpoints, hexadecimal, whole or their first 8 digits or more.

    Raises:
        WeightsError: it could, or is not known not to; the message says how to get a file that is read.
        OSError: the file cannot be read.
    """
    if is_torchscript(path):
        raise WeightsError(
            f"{path} is a TorchScript archive, which can hold code, so it is not read; give a file that "
            "torch.save(model.state_dict(), FILE) or safetensors has written"
        )
    if is_tar(path):
        raise WeightsError(
            f"{path} is a tar file, as the first releases of torch wrote them, which is not read because it can hold "
            "code; give a file that torch.save(model.state_dict(), FILE) or safetensors has written"
        )
    if is_vulnerable(torch_version) and not is_published(path, published):
        raise WeightsError(
            f"{path} is a pickle that matches no published checkpoint, and torch {torch_version} cannot read such a "
            "file safely (CVE-2026-24747, corrected in 2.10.0); convert it with a newer torch, by 'modelzoo weights "
            f"convert {shlex.quote(str(path))}', and give the safetensors file"
        )


def is_torchscript(path: Path) -> bool:
    """Whether any release of torch may take the file for a TorchScript archive.

    The names of a zip's records stand in it as they are. Therefore the file is searched as a whole: readers of zip
    files disagree about crafted ones, and what Python's ``zipfile`` lists is not always what torch's reader finds.
    """
    with path.open("rb") as file:
        if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(TORCHSCRIPT_RECORD) >= 0


def is_tar(path: Path) -> bool:
    """Whether torch takes the file for one of its legacy tar files; the test is torch's own."""
    try:
        with tarfile.open(path, mode="r:", format=tarfile.PAX_FORMAT):
            return True
    except tarfile.TarError:
        return False


def is_vulnerable(torch_version: str) -> bool:
    """Whether the unpickler of this torch has a known hole, or is not known to have none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.\d+)*(a|b|rc|\.?dev)?", torch_version)
    if found is None:
        return True
    release = (int(found[1]), int(found[2]))
    return release < CORRECTED or (release == CORRECTED and found[3] is not None)


def is_published(path: Path, published: Collection[str]) -> bool:
    """Whether the SHA-256 of the file begins with one of ``published``, none of which may be too short to mean much."""
    known = tuple(digits for digits in published if len(digits) >= SHORTEST_DIGEST)
    return bool(known) and file_sha256(path).startswith(known)

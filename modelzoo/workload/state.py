"""Read a model's tensors from a file, load them into the model, and write them as safetensors.

Files are read as safetensors, or with ``torch.load(weights_only=True)``: code in a checkpoint never runs, and torch
refuses TorchScript archives and the tar files of its first releases. Below 2.10 a crafted pickle can corrupt memory in
the unpickler (CVE-2026-24747). There a pickle is refused unless its SHA-256 begins with digits that a workload
publishes. Eight digits, as in torchvision's file names, are a partial match: they detect accidents, and make a forgery
cost some 2**32 attempts. Pre-releases of 2.10.0, which source builds call themselves, may lack the correction and count
as older.
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import UsageError, WeightsError
from modelzoo.files import file_sha256, replace_atomically
from modelzoo.machine.installation import import_torch

CORRECTED = (2, 10)
"""The first release of torch whose unpickler is not known to be vulnerable."""
SHORTEST_DIGEST = 8
"""Hexadecimal digits that a published digest has at least: those in the file names of torchvision's hub."""
REPOSITORY_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights file in a checkpoint directory, in order of preference."""
SUFFIX = ".safetensors"


def refuse_unsafe(path: Path, torch_version: str, published: Collection[str] = ()) -> None:
    """Check that ``torch.load(weights_only=True)`` of this release may be given the file ``path``.

    Args:
        path: a checkpoint, not in the safetensors format.
        torch_version: ``torch.__version__``.
        published: SHA-256 digests of published checkpoints, hexadecimal, whole or their first 8 digits or more.

    Raises:
        WeightsError: it may not; the message says how to get a file that is read.
        OSError: the file cannot be read.
    """
    if is_vulnerable(torch_version) and not is_published(path, published):
        raise WeightsError(
            f"{path} is a pickle that matches no published checkpoint, and torch {torch_version} cannot read such a "
            "file safely (CVE-2026-24747, corrected in 2.10.0); convert it with a newer torch, by 'modelzoo weights "
            f"convert {shlex.quote(str(path))}', and give the safetensors file"
        )


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


def weights_file(path: Path) -> Path | None:
    """Return the file that holds the tensors.

    Args:
        path: a weights file, or a checkpoint directory in Hugging Face's layout.

    Returns:
        ``path`` itself if it is a file, or else the weights file in the directory; ``None`` if there is no such file.
    """
    if path.is_file():
        return path
    return next((path / name for name in REPOSITORY_WEIGHTS if (path / name).is_file()), None)


def read_state_dict(path: Path, published: Collection[str] = ()) -> dict[str, Any]:
    """Read tensors by name from a ``.safetensors`` file, or from a pickle with ``weights_only=True``.

    Args:
        path: the file.
        published: digests of published checkpoints (``Checkpoint.digest``). Below torch 2.10, no other pickles are
            read, because crafted ones could run code there.

    Raises:
        WeightsError: the file is truncated, is not a state dict, or holds objects other than tensors; or this torch
            cannot read it safely.
    """
    torch = import_torch()
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(str(path)))
        refuse_unsafe(path, torch.__version__, published)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TorchScript archives, which are then refused
            state = torch.load(str(path), map_location="cpu", weights_only=True)
    except WeightsError:
        raise
    except Exception as error:  # pickle, zipfile and safetensors each raise their own exceptions
        raise WeightsError(
            f"{path} cannot be read as weights: {_reason(error)}; fetch it again, or name another file"
        ) from error
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()
    ):
        raise WeightsError(f"{path} is not a state dict (names to tensors); save model.state_dict()")
    return state


def _reason(error: Exception) -> str:
    """Describe a read error in one line, without torch's suggestion to set ``weights_only=False``."""
    import pickle

    if isinstance(error, pickle.UnpicklingError) or "weights_only" in str(error):
        return (
            "it is not a checkpoint that torch.save(model.state_dict(), FILE) has written, or holds more than tensors "
            "(code in it was not run)"
        )
    line = (str(error).strip().splitlines() or [""])[0]
    return line if " " in line else f"it is not a checkpoint ({type(error).__name__})"


def load_state_dict(model: Any, state: Mapping[str, Any], path: Path) -> None:
    """Load ``state`` into ``model``; every name and shape must match.

    Args:
        model: a ``torch.nn.Module``.
        state: tensors by name.
        path: the file that ``state`` comes from, for the error message.

    Raises:
        WeightsError: names or shapes differ; the message counts the mismatches and names the first of each kind.
    """
    expected = without_counters(model.state_dict())
    given = without_counters(state)
    found = mismatches(expected, given)
    if found:
        raise WeightsError(f"{path} does not fit the model: {'; '.join(found)}; give a checkpoint of this workload")
    model.load_state_dict(given, strict=False)


def without_counters(state: Mapping[str, Any]) -> dict[str, Any]:
    """Drop batch norm's call counter: inference never reads it, and checkpoints older than torch 0.4.1 lack it."""
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def mismatches(expected: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Compare names and shapes of the arrays that a model expects with those given; of any library.

    Returns:
        One phrase for each kind of mismatch; empty if all names and shapes are the same.
    """
    found = []
    if missing := sorted(expected.keys() - given.keys()):
        found.append(f"{len(missing)} tensors missing (first: {missing[0]})")
    if unknown := sorted(given.keys() - expected.keys()):
        found.append(f"{len(unknown)} unknown (first: {unknown[0]})")
    common = sorted(expected.keys() & given.keys())
    if reshaped := [name for name in common if tuple(expected[name].shape) != tuple(given[name].shape)]:
        first = reshaped[0]
        found.append(
            f"{len(reshaped)} of another shape (first: {first} is {tuple(given[first].shape)}, the model needs "
            f"{tuple(expected[first].shape)})"
        )
    return found


class Converted(msgspec.Struct, frozen=True):
    """What a conversion wrote.

    Attributes:
        path: the safetensors file.
        tensors: how many tensors it holds.
        bytes: its size.
    """

    path: Path
    tensors: int
    bytes: int


def convert_weights(source: Path, target: Path | None = None) -> Converted:
    """Write the tensors of a pickled checkpoint as safetensors; names, shapes, values and types stay the same.

    Args:
        source: the checkpoint, or a directory in Hugging Face's layout.
        target: the file to write, which is replaced. By default it is beside ``source``, with the suffix
            ``.safetensors``; in a directory, under the name that the suite and transformers prefer.

    Raises:
        UsageError: ``source`` is safetensors already, or the default target exists.
        WeightsError: ``source`` holds no weights or cannot be read safely, or the target cannot be written.
    """
    file = weights_file(source)
    if file is None:
        problem = f"holds none of {', '.join(REPOSITORY_WEIGHTS)}" if source.exists() else "does not exist"
        raise WeightsError(f"{source} {problem}; name a checkpoint file")
    if file.suffix == SUFFIX:
        raise UsageError(f"{file} is safetensors already; there is nothing to convert")
    if target is None:
        target = file.with_name(REPOSITORY_WEIGHTS[0]) if file.name in REPOSITORY_WEIGHTS else file.with_suffix(SUFFIX)
        if target.exists():
            raise UsageError(f"{target} exists; remove it, or name the file to write with -o")
    elif target.suffix != SUFFIX:
        raise UsageError(f"{target} does not end in {SUFFIX}, by which the format is recognized; rename it")
    state = read_state_dict(file)
    try:
        save_state_dict(state, target)
    except Exception as error:  # safetensors and torch raise errors of many types for tensors that cannot be written
        lines = str(error).strip().splitlines() or [""]
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {lines[0]}"
        raise WeightsError(f"{file} cannot be written as {target}: {reason}") from error
    return Converted(target, len(state), target.stat().st_size)


def save_state_dict(state: Mapping[str, Any], path: Path) -> None:
    """Write tensors by name as safetensors, whole or not at all.

    Tensors that share memory are written once for each name; the format has no views.

    Raises:
        OSError: the file cannot be written.
    """
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
    with replace_atomically(path) as temporary:
        permissions = temporary.stat().st_mode
        save_file(tensors, str(temporary))
        temporary.chmod(permissions)  # safetensors replaces the file with one that only its owner can read

"""Read a model's tensors from a file, load them into the model, and write them as safetensors.

Files are read as safetensors, or with ``torch.load(weights_only=True)``: code in a checkpoint never runs, and torch
refuses TorchScript archives and the tar files of its first releases. Below 2.10 a crafted pickle can corrupt memory in
the unpickler (CVE-2026-24747). There a pickle is refused unless its SHA-256 begins with digits that a workload
publishes. Eight digits, as in torchvision's file names, are a partial match: they detect accidents, and make a forgery
cost some 2**32 attempts. Pre-releases of 2.10.0, which source builds call themselves, may lack the correction and count
as older.
"""

from __future__ import annotations

import shlex
import warnings
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from modelzoo.errors import UsageError, WeightsError, first_line
from modelzoo.files import file_sha256, files_sha256, replace_atomically
from modelzoo.machine.installation import import_torch

CORRECTED = "2.10"
"""The first release of torch whose unpickler is not known to be vulnerable."""
SHORTEST_DIGEST = 8
"""Hexadecimal digits that a published digest has at least: those in the file names of torchvision's hub."""
SUFFIX = ".safetensors"
INDEX = ".index.json"
REPOSITORY_WEIGHTS = tuple(f"{name}{end}" for name in ("model.safetensors", "pytorch_model.bin") for end in ("", INDEX))
"""Names of the weights file in a checkpoint directory, or of the index of its shards, in transformers' order."""
MEMBER = "::"
"""What is between a file and the name of one of its state dicts."""
METADATA = "_metadata"
"""The attribute of torch's state dicts with the versions of their modules."""
LFS_POINTER = b"version https://git-lfs"


def is_vulnerable(torch_version: str) -> bool:
    """Whether the unpickler of this torch has a known hole, or is not known to have none."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(torch_version) < Version(CORRECTED)
    except InvalidVersion:
        return True


def split_member(path: Path) -> tuple[Path, str]:
    """Split ``FILE::NAME``, which names one of several state dicts in a file, into both; the name may be empty.

    >>> split_member(Path("mine.pth::state_dict_ema"))
    (PosixPath('mine.pth'), 'state_dict_ema')
    """
    file, _, name = str(path).partition(MEMBER)
    return (path, "") if path.exists() else (Path(file), name)


def weights_files(path: Path) -> tuple[Path, ...]:
    """Return the files that hold the tensors, in order.

    Args:
        path: a weights file, an index of shards, or a checkpoint directory in Hugging Face's layout.

    Raises:
        WeightsError: an index cannot be read, or one of its shards is missing.
    """
    path, _ = split_member(path)
    if path.is_dir():
        path = next((path / name for name in REPOSITORY_WEIGHTS if (path / name).is_file()), path)
    if not path.is_file() or not path.name.endswith(INDEX):
        return (path,) if path.is_file() else ()
    try:
        shards = sorted(set(msgspec.json.decode(path.read_bytes(), type=_Index).weight_map.values()))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise WeightsError(f"{path} is not an index of shards: {error}; download it again") from error
    for name in shards:
        if Path(name).name != name or not path.with_name(name).is_file():
            raise WeightsError(f"{path} names {name!r}, which is not in its directory; download it again")
    return tuple(path.with_name(name) for name in shards)


class _Index(msgspec.Struct):
    """What an index of shards says: the file of each tensor."""

    weight_map: dict[str, str]


def weights_sha256(files: Sequence[Path]) -> str:
    """Return the SHA-256 of a weights file, or of the names and contents of shards."""
    return files_sha256(files[0].parent, files)


def read_state_dict(path: Path, published: Collection[str] = ()) -> Mapping[str, Any]:
    """Read tensors by name from ``.safetensors`` files, or from pickles with ``weights_only=True``.

    If a file holds a state dict beside other things, such as the state of an optimizer, it is that one.

    Args:
        path: as for ``weights_files``, or ``FILE::NAME`` for one of several state dicts in a file.
        published: digests of published checkpoints (``Checkpoint.digest``). Below torch 2.10, no other pickles are
            read, because crafted ones could run code there.

    Raises:
        WeightsError: there is no such file; it is truncated, is not a state dict, holds several of them, or objects
            other than tensors; or this torch cannot read it safely.
    """
    files, (place, name) = weights_files(path), split_member(path)
    if not files:
        raise WeightsError(f"{place} holds no weights (looked for {', '.join(REPOSITORY_WEIGHTS)})")
    read = [_read(file, published) for file in files]
    if len(read) == 1:
        return _state_dict(read[0], place, name)
    return {key: tensor for each, file in zip(read, files) for key, tensor in _state_dict(each, file, name).items()}


def _read(path: Path, published: Collection[str]) -> Any:
    """The content of one file."""
    from pickle import UnpicklingError

    torch = import_torch()

    try:
        if path.suffix == SUFFIX:
            from safetensors.torch import load_file

            return load_file(str(path))
        # Digests that are too short mean nothing.
        known = tuple(digits for digits in published if len(digits) >= SHORTEST_DIGEST)
        if is_vulnerable(torch.__version__) and not (known and file_sha256(path).startswith(known)):
            raise WeightsError(
                f"{path} is a pickle that matches no published checkpoint, and torch {torch.__version__} cannot read "
                "such a file safely (CVE-2026-24747, corrected in 2.10.0); convert it with a newer torch, by 'modelzoo "
                f"weights convert {shlex.quote(str(path))}', and give the safetensors file"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of TorchScript archives, which are then refused
            return torch.load(str(path), map_location="cpu", weights_only=True)
    except WeightsError:
        raise
    except Exception as error:  # pickle, zipfile and safetensors each raise their own exceptions
        with path.open("rb") as file:
            is_pointer = file.read(len(LFS_POINTER)) == LFS_POINTER
        reason = first_line(error)
        if is_pointer:
            reason = "it is a pointer of Git LFS, without the content"
        elif isinstance(error, UnpicklingError) or "weights_only" in str(error):
            # Without torch's suggestion to set weights_only=False.
            reason = (
                "it is not a checkpoint that torch.save(model.state_dict(), FILE) has written, or holds more than "
                "tensors (code in it was not run)"
            )
        elif " " not in reason:
            reason = f"it is not a checkpoint ({type(error).__name__})"
        raise WeightsError(
            f"{path} cannot be read as weights: {reason}; fetch it again, or name another file"
        ) from error


def _state_dict(content: Any, path: Path, name: str) -> Mapping[str, Any]:
    """The state dict in what a file holds: ``name``, or the only one."""
    entries: dict[str, Any] = content if isinstance(content, dict) else {"": None}
    if not name and _is_state_dict(entries):
        return entries
    inner = {
        key: value for key, value in entries.items() if isinstance(value, dict) and value and _is_state_dict(value)
    }
    if name in inner or (len(inner) == 1 and not name):
        found: Mapping[str, Any] = inner[name or next(iter(inner))]
        return found
    if not inner and not name:
        raise WeightsError(f"{path} is not a state dict (names to tensors); save model.state_dict()")
    names = ", ".join(f"{key} ({len(value)} tensors)" for key, value in inner.items()) or "none in it"
    problem = f"holds no state dict {name!r}" if name else "holds several state dicts"
    example = f"; name one, as in --weights {shlex.quote(f'{path}{MEMBER}{next(iter(inner))}')}" if inner else ""
    raise WeightsError(f"{path} {problem}: {names}{example}")


def _is_state_dict(value: Any) -> bool:
    import torch

    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(each, torch.Tensor) for name, each in value.items()
    )


class WeightsNote(UserWarning):
    """What was changed in a state dict so that it fits a model."""


def load_state_dict(model: Any, state: Mapping[str, Any], path: Path) -> None:
    """Load ``state`` into ``model``; every name, shape and kind of type must match.

    If all names share a prefix that the model's names do not have, such as the ``module.`` of ``DataParallel``, it is
    removed, with a ``WeightsNote``. Of tensors that are one in the model, one name is sufficient.

    Args:
        model: a ``torch.nn.Module``.
        state: tensors by name.
        path: the file that ``state`` comes from, for the error message.

    Raises:
        WeightsError: names, shapes or types differ; the message counts the mismatches and names the first of each kind.
    """
    own = tensors_of(model)
    expected, given = without_counters(own), without_counters(state)
    prefix, given = _without_prefix(given, expected)
    found = _spread(given, expected)
    found += mismatches(expected, given)
    common = [name for name in expected if name in given and type_kind(expected[name]) != type_kind(given[name])]
    if common:
        first = common[0]
        found.append(f"{len(common)} of another type (first: {first} is {given[first].dtype})".replace("torch.", ""))
    if found:
        raise WeightsError(f"{path} does not fit the model: {'; '.join(found)}; give a checkpoint of this workload")
    if prefix:
        warnings.warn(f"all names in {path.name} begin with {prefix!r}", WeightsNote, stacklevel=2)
    # The versions of modules, by which some of them convert what older releases have written. If a file does not say
    # them (safetensors cannot), it is of this release.
    versions = getattr(state, METADATA, None) or getattr(own, METADATA, {})
    loaded = OrderedDict(given)
    inner = {f"{name}."[len(prefix) :]: each for name, each in versions.items() if f"{name}.".startswith(prefix)}
    setattr(loaded, METADATA, {name.removesuffix("."): each for name, each in inner.items()})
    model.load_state_dict(loaded, strict=False)


def tensors_of(model: Any) -> Mapping[str, Any]:
    """Return the state dict of ``model``, with nothing but tensors of numbers in it.

    Raises:
        WeightsError: it holds something else, as that of a quantized model does.
    """
    state: Mapping[str, Any] = model.state_dict()
    for name, each in state.items():
        if not _is_state_dict({name: each}) or each.is_quantized:
            raise WeightsError(
                f"the model holds {name!r}, which is not a tensor of numbers, as quantized layers do: build it in fp32 "
                "and quantize it by --int8, or --recipe dynamic for torch's quantize_dynamic"
            )
    return state


def _without_prefix(given: dict[str, Any], expected: Collection[str]) -> tuple[str, dict[str, Any]]:
    """The prefix that all names share, if the model has some of the names only without it, and ``given`` without it."""
    prefix, found = "", given
    while found and found.keys().isdisjoint(expected):
        part = "".join(min(found).partition(".")[:2])
        if not part.endswith(".") or not all(name.startswith(part) for name in found):
            return "", given
        prefix, found = prefix + part, {name[len(part) :]: tensor for name, tensor in found.items()}
    return prefix, found


def _spread(given: dict[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Add to ``given`` the other names of tensors that are one in the model; one phrase for each that is not one."""
    names: dict[object, list[str]] = {}
    for name, tensor in expected.items():
        if tensor.numel():
            names.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype), []).append(name)
    found = []
    for same in names.values():
        first, *others = [name for name in same if name in given] or [""]
        found += [
            f"{first} and {name} are one tensor in the model"
            for name in others
            if given[first] is not given[name] and not given[first].equal(given[name])
        ]
        given.update({name: given[first] for name in same if first and name not in given})
    return found


def type_kind(tensor: Any) -> str:
    """What a type means: numbers in fp8 or of 1 byte mean nothing without their scales."""
    if not tensor.is_floating_point():
        return "complex" if tensor.is_complex() else "integer"
    return "floating" if tensor.element_size() > 1 else str(tensor.dtype)


def without_counters(state: Mapping[str, Any]) -> dict[str, Any]:
    """Drop batch norm's call counter: inference never reads it, and checkpoints older than torch 0.4.1 lack it."""
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}


def mismatches(expected: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Compare names and shapes of the arrays that a model expects with those given; of any library.

    Returns:
        One phrase for each kind of mismatch; empty if all names and shapes are the same.
    """
    common = sorted(expected.keys() & given.keys())
    shapes = [(name, tuple(given[name].shape), tuple(expected[name].shape)) for name in common]
    reshaped = [each for each in shapes if each[1] != each[2]]
    return phrases(expected.keys() - given.keys(), given.keys() - expected.keys(), reshaped)


def phrases(missing: Collection[str], unknown: Collection[str], reshaped: Sequence[tuple[str, Any, Any]]) -> list[str]:
    """One phrase for each kind of mismatch; ``reshaped``: name, shape in the file and shape in the model."""
    found = []
    if missing:
        found.append(f"{len(missing)} tensors missing (first: {min(missing)})")
    if unknown:
        found.append(f"{len(unknown)} unknown (first: {min(unknown)})")
    if reshaped:
        name, given, needed = min(reshaped)
        shapes = f"first: {name} is {tuple(given)}, the model needs {tuple(needed)}"
        found.append(f"{len(reshaped)} of another shape ({shapes})")
    return found


def convert_weights(source: Path, target: Path | None = None) -> tuple[Path, int]:
    """Write the tensors of a pickled checkpoint as safetensors; names, shapes, values and types stay the same.

    Args:
        source: the checkpoint, or a directory in Hugging Face's layout.
        target: the file to write, which is replaced. By default it is beside ``source``, with the suffix
            ``.safetensors``; in a directory, under the name that the suite and transformers prefer.

    Returns:
        The safetensors file, and the number of tensors in it.

    Raises:
        UsageError: ``source`` is safetensors already, or the default target exists.
        WeightsError: ``source`` holds no weights or cannot be read safely, or the target cannot be written.
    """
    files, (place, _) = weights_files(source), split_member(source)
    if not files:
        problem = f"holds none of {', '.join(REPOSITORY_WEIGHTS)}" if place.exists() else "does not exist"
        raise WeightsError(f"{place} {problem}; name a checkpoint file")
    file = files[0]
    if file.suffix == SUFFIX:
        raise UsageError(f"{file} is safetensors already; there is nothing to convert")
    if target is None:
        is_repository = len(files) > 1 or file.name in REPOSITORY_WEIGHTS
        target = file.with_name(REPOSITORY_WEIGHTS[0]) if is_repository else file.with_suffix(SUFFIX)
        if target.exists():
            raise UsageError(f"{target} exists; remove it, or name the file to write with -o")
    elif target.suffix != SUFFIX:
        raise UsageError(f"{target} does not end in {SUFFIX}, by which the format is recognized; rename it")
    state = read_state_dict(source)
    try:
        save_state_dict(state, target)
    except Exception as error:  # safetensors and torch raise errors of many types for tensors that cannot be written
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {first_line(error)}"
        raise WeightsError(f"{file} cannot be written as {target}: {reason}") from error
    return target, len(state)


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

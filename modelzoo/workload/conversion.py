"""Write a state dict as safetensors, a format without code, and convert pickled checkpoints to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelzoo.errors import UsageError, WeightsError
from modelzoo.files import replace_atomically
from modelzoo.workload.state import REPOSITORY_WEIGHTS, read_state_dict, weights_file

SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Converted:
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

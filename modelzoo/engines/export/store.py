"""The cache of exported models: a directory for each, with the batches that it was measured with.

    exports/resnet50-0123456789abcdef/
        manifest.json            what it is; written last
        …                        files of the exporter
        batch-0123456789abcdef.npz    inputs, torch's outputs, and how they are nested

The name of a directory is a digest of everything that decides its content: the workload's code, the state of the torch
module, the conversion, and the shapes of the inputs. Those used longest ago are removed if the cache is too large.

The process that prepares a call reads all files of an export that it finds, and compares their SHA-256 with the
manifest's; the workers of the call, which start again and again, compare only their sizes.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.engines.export.source import CHANGED, PLAIN, ROUNDED, Batch, flatten, rebuild
from modelzoo.engines.protocol import RawOutputs
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError
from modelzoo.files import cache_directory, files_sha256, name_in_file, replace_atomically, sync, write_atomically
from modelzoo.records.codec import decode, encode_json
from modelzoo.records.workload import Conversion, Export
from modelzoo.workload.declaration import Inputs, inputs_digest
from modelzoo.workload.discovery import code_sha256

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from modelzoo.engines.export.source import TorchSource


LIMIT = 16 << 30
"""Bytes that exports may take: some thirty of BERT-base, or a hundred of ResNet50."""
PROTECTED_SECONDS = 24 * 3600.0
"""An export that was used within this time stays, whatever the size: a call, of this or another process, may still use
it. The same holds for the directory of an export that is being written."""
MANIFEST = "manifest.json"
"""The time of its last change is that of the last use of the export."""
LAYOUT = 8
"""Version of what is written, a part of the key; increase it if an exporter of the suite writes something else."""
INPUT, BATCH = "input", "batch"

Write = Callable[[Path], None]
"""Writes the exported model into a directory."""


class _Manifest(msgspec.Struct, frozen=True):
    """What a directory holds; the names of the files, with their sizes, are relative to it."""

    sha256: str
    files: dict[str, int]


def prune(exports: Path, limit: int = LIMIT) -> None:
    """Remove the exports that were used longest ago, until all in the directory take at most ``limit`` bytes.

    Those used within ``PROTECTED_SECONDS`` stay. What cannot be removed stays too.
    """
    found: list[tuple[float, Path, int]] = []
    for path in exports.iterdir():
        with suppress(OSError):  # another process has removed it
            stamp = path / MANIFEST
            used = (stamp if stamp.exists() else path).stat().st_mtime
            found.append((used, path, sum(each.stat().st_size for each in path.rglob("*") if each.is_file())))
    excess = sum(size for _, _, size in found) - limit
    for used, path, size in sorted(found):
        if excess <= 0 or time.time() - used < PROTECTED_SECONDS:
            break
        with suppress(OSError):
            (path / MANIFEST).unlink(missing_ok=True)  # without it, what is left counts as no export
            shutil.rmtree(path)
            excess -= size


def export_once(source: TorchSource, engine: str, conversion: Conversion, write: Write) -> Export:
    """Return the export of ``source`` from the cache; the first time, make it.

    Args:
        source: the torch module, its weights and its batch.
        engine: name of the engine, for the error.
        conversion: how ``write`` converts.
        write: is called with an empty directory if there is no such export yet.

    Raises:
        UsageError: the model cannot be converted; the message gives the exporter's reason.
        EnvironmentProblem: the cache cannot be written to, or its files are damaged.
    """
    # Exporters take numbers for constants, so their values count.
    shapes = [
        (str(each.dtype), tuple(each.shape)) if hasattr(each, "shape") else (type(each).__name__, each)
        for each in source.flat_inputs
    ]
    model = source.workload.name, code_sha256(source.workload.directory), source.state_sha256
    key = hashlib.sha256(encode_json((LAYOUT, *model, conversion, source.input_structure, shapes))).hexdigest()
    directory = cache_directory() / "exports" / f"{name_in_file(source.workload.name)}-{key[:16]}"
    try:
        manifest = _read_manifest(directory)
        if manifest is None:
            manifest = _make(directory, source, engine, write)
            prune(directory.parent)
        elif not _is_unchanged(directory, manifest, in_full=True):
            raise EnvironmentProblem(f"the exported model in {directory} has changed; remove that directory")
        with suppress(OSError):  # a cache that can only be read is not pruned either
            os.utime(directory / MANIFEST)
        batch = _save_batch(directory, source)
    except OSError as error:
        problem = f"the exported model cannot be written to {directory}: {error.strerror}"
        raise EnvironmentProblem(f"{problem}; free some space, or set MODELZOO_CACHE to another directory") from error
    return Export(
        path=str(directory),
        batch=batch,
        conversion=conversion,
        state_sha256=source.state_sha256,
        sha256=manifest.sha256,
        converted=source.loaded.converted,
        warnings=source.loaded.warnings,
    )


def _make(directory: Path, source: TorchSource, engine: str, write: Write) -> _Manifest:
    """Write a directory beside the final one and rename it, so that other processes see a complete one or none."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = directory.with_name(f".{directory.name}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        write(temporary)
        paths = sorted(temporary.rglob("*"))
        for path in paths:
            sync(path)
        files = [path for path in paths if path.is_file()]
        sizes = {path.relative_to(temporary).as_posix(): path.stat().st_size for path in files}
        manifest = _Manifest(files_sha256(temporary, files), sizes)
        write_atomically(temporary / MANIFEST, encode_json(manifest))
        sync(temporary)
        if _read_manifest(directory) is None:
            shutil.rmtree(directory, ignore_errors=True)
        try:
            temporary.replace(directory)
        except OSError:
            # A directory that is not empty cannot be replaced: another process was faster.
            faster = _read_manifest(directory)
            if faster is None:
                raise
            return faster
        sync(directory.parent)
        return manifest
    except (ModelzooError, OSError):
        raise
    except Exception as error:  # exporters raise errors of many types
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), "no reason given")
        raise UsageError(
            f"{source.workload.name} cannot be exported for {engine}: {type(error).__name__}: {reason}; run it with "
            "--engine torch"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_unchanged(directory: Path, manifest: _Manifest, *, in_full: bool) -> bool:
    """Whether all files are as they were written: their contents if ``in_full``, or their sizes."""
    try:
        if in_full:
            return files_sha256(directory, [directory / name for name in manifest.files]) == manifest.sha256
        return all((directory / name).stat().st_size == size for name, size in manifest.files.items())
    except OSError:
        return False


def _read_manifest(directory: Path) -> _Manifest | None:
    """The manifest of an export; ``None`` if it is not there or is of another version."""
    try:
        return decode(_Manifest, msgspec.json.decode((directory / MANIFEST).read_bytes()))
    except (OSError, msgspec.DecodeError):
        return None


def _save_batch(directory: Path, source: TorchSource) -> str:
    """Write the batch, unless it is there and can be read; return its name."""
    import numpy as np

    digest = inputs_digest(source.inputs.args)
    if digest is None:
        raise UsageError(
            f"the inputs of {source.workload.name} hold values that numpy cannot represent, so no other engine than "
            "torch can read them; run with --engine torch"
        )
    name = f"{BATCH}-{digest[:16]}"
    try:
        for kind in (INPUT, PLAIN, CHANGED, ROUNDED):
            _read(str(directory), name, kind)
    except EnvironmentProblem:
        batch, sides = source.expected
        sides = {INPUT: tuple(map(np.asarray, source.flat_inputs)), **sides}
        arrays: dict[str, Any] = {
            f"{kind}{number}": each for kind, side in sides.items() for number, each in enumerate(side)
        }
        arrays[BATCH] = np.frombuffer(encode_json(batch), np.uint8)
        with replace_atomically(directory / f"{name}.npz") as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
    return name


def read_batch(export: Export) -> Batch:
    """Return how the batch of ``export`` is nested.

    Raises:
        EnvironmentProblem: its file is gone.
    """
    return _read(export.path, export.batch)[0]


def read_inputs(export: Export) -> Inputs:
    """Return the batch of ``export`` as nested numpy arrays; they have the digest of the workload's own inputs.

    Raises:
        EnvironmentProblem: its file is gone, or the model's files have changed.
    """
    directory = Path(export.path)
    manifest = _read_manifest(directory)
    if manifest is None or manifest.sha256 != export.sha256 or not _is_unchanged(directory, manifest, in_full=False):
        raise _gone(export.path)
    batch, arrays = _read(export.path, export.batch, INPUT)
    return Inputs(rebuild(batch.inputs, arrays), batch.items)


def read_expected(export: Export, side: str = PLAIN) -> RawOutputs:
    """Return torch's outputs for the batch of ``export`` in fp32, as ``side`` says (``TorchSource.expected``).

    There are none if the inputs cannot be ``CHANGED``.

    Raises:
        EnvironmentProblem: its file is gone.
    """
    batch, arrays = _read(export.path, export.batch, side)
    return RawOutputs(tuple(arrays[: batch.outputs.count]), tuple(arrays[batch.outputs.count :]))


def flat_arrays(args: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Return the arrays in nested arguments, in order, as contiguous numpy arrays; tensors are on the CPU."""
    import numpy as np

    return [np.ascontiguousarray(np.asarray(each)) for each in flatten(args)[1]]


def _read(directory: str, name: str, kind: str = "") -> tuple[Batch, list[NDArray[Any]]]:
    """The batch of that ``name`` of an export, and its arrays of one ``kind``, in order."""
    import numpy as np

    try:
        # np.load would leave a damaged file open.
        with (
            (Path(directory) / f"{name}.npz").open("rb") as file,
            np.load(file, allow_pickle=False) as stored,
        ):
            batch = decode(Batch, msgspec.json.decode(stored[BATCH].tobytes()))
            count = batch.inputs.count if kind == INPUT else batch.outputs.count + len(batch.heads)
            if not kind or (kind == CHANGED and f"{CHANGED}0" not in stored):
                count = 0
            return batch, [stored[f"{kind}{number}"] for number in range(count)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, msgspec.DecodeError) as error:
        raise _gone(directory) from error


def _gone(directory: str) -> EnvironmentProblem:
    return EnvironmentProblem(f"the exported model in {directory} cannot be read any more; run again")

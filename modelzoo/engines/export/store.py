"""The cache of exported models: a directory for each, with the batches that it was measured with.

    exports/resnet50-0123456789abcdef/
        manifest.json            what it is; written last
        …                        files of the exporter
        batch-0123456789abcdef.npz    inputs and torch's outputs
        batch-0123456789abcdef.json   how they are nested; written last

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from modelzoo.directories import cache_directory
from modelzoo.engines.export.source import Structure, flatten, rebuild
from modelzoo.engines.protocol import RawOutputs
from modelzoo.errors import EnvironmentProblem, ModelzooError, UsageError
from modelzoo.files import replace_atomically, sync, write_atomically
from modelzoo.records.codec import decode, encode_json
from modelzoo.records.profile import Flops
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


class _Entry(msgspec.Struct, frozen=True):
    path: Path
    used: float
    size: int


def mark_used(file: Path) -> None:
    """Note that the export to which ``file`` belongs is used now, as the time at which that file was last read."""
    with suppress(OSError):  # a cache that can only be read is not pruned either
        # File systems are often mounted so that reading does not change it.
        os.utime(file, (time.time(), file.stat().st_mtime))


def prune(exports: Path, stamp: str, limit: int = LIMIT) -> list[Path]:
    """Remove the exports that were used longest ago, until all of them take at most ``limit`` bytes.

    Those used within ``PROTECTED_SECONDS`` stay. What cannot be removed stays too.

    Args:
        exports: the directory that holds them.
        stamp: name of the file that ``mark_used`` was given; an export that is not finished has none.
        limit: in bytes.

    Returns:
        What was removed.
    """
    found = [_entry(path, stamp) for path in exports.iterdir() if path.is_dir()]
    excess, now, removed = sum(each.size for each in found) - limit, time.time(), []
    for each in sorted(found, key=lambda each: each.used):
        if excess <= 0 or now - each.used < PROTECTED_SECONDS:
            break
        if _remove(each.path):
            removed.append(each.path)
            excess -= each.size
    return removed


def _entry(path: Path, stamp: str) -> _Entry:
    used, size = 0.0, 0
    for place, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # removed by another process
                size += (Path(place) / name).stat().st_size
    with suppress(OSError):  # the time at which a directory was last read is now
        used = path.stat().st_mtime
        found = (path / stamp).stat()
        used = max(found.st_atime, found.st_mtime)
    return _Entry(path, used, size)


def _remove(path: Path) -> bool:
    """Rename the directory first, so that no process finds half an export."""
    doomed = path.with_name(f".{path.name.lstrip('.')}-{secrets.token_hex(4)}.tmp")
    try:
        path.rename(doomed)
    except OSError:
        return False
    shutil.rmtree(doomed, ignore_errors=True)
    return True


MANIFEST = "manifest.json"
LAYOUT = 7
"""Version of what is written, a part of the key; increase it if an exporter of the suite writes something else."""
T = TypeVar("T")

Write = Callable[[Path], Sequence[str]]
"""Writes the exported model into a directory, and returns the parts that it was split into; empty if it is whole."""


class _Manifest(msgspec.Struct, frozen=True):
    """What a directory holds; the names of the files, with their sizes, are relative to it."""

    conversion: Conversion
    state_sha256: str
    sha256: str
    files: dict[str, int]
    parts: tuple[str, ...] = ()


class Batch(msgspec.Struct, frozen=True):
    """A batch as the measuring worker reads it.

    Attributes:
        items: what each item of the batch is.
        inputs: how the input arrays are nested.
        outputs: how torch's outputs are nested.
        heads: names of the raw heads' arrays.
        is_changed: whether torch's outputs for slightly different inputs are stored too.
        flops: the operations that torch counts in a pass of the batch; ``None`` if it cannot.
    """

    items: tuple[str, ...]
    inputs: Structure
    outputs: Structure
    heads: tuple[str, ...] = ()
    is_changed: bool = False
    flops: Flops | None = None


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
    directory = cache_directory() / "exports" / f"{source.workload.name}-{_key(source, conversion)[:16]}"
    manifest = _read(directory / MANIFEST, _Manifest)
    try:
        if manifest is None:
            _make(directory, source, engine, conversion, write)
            manifest = _read(directory / MANIFEST, _Manifest)
            prune(directory.parent, MANIFEST)
        elif not _is_intact(directory, manifest):
            raise EnvironmentProblem(f"the exported model in {directory} has changed; remove that directory")
        mark_used(directory / MANIFEST)
        batch = _save_batch(directory, source)
    except OSError as error:
        problem = f"the exported model cannot be written to {directory}: {error.strerror}"
        raise EnvironmentProblem(f"{problem}; free some space, or set MODELZOO_CACHE to another directory") from error
    if manifest is None:
        raise EnvironmentProblem(f"the exported model in {directory} cannot be read; remove that directory")
    files = manifest.state_sha256, manifest.sha256, manifest.parts
    return Export(str(directory), batch, manifest.conversion, *files, source.loaded.converted, source.loaded.warnings)


def _key(source: TorchSource, conversion: Conversion) -> str:
    """What decides the content of an export."""
    # Exporters take numbers for constants, so their values count.
    shapes = [
        (str(each.dtype), tuple(each.shape)) if hasattr(each, "shape") else (type(each).__name__, each)
        for each in source.flat_inputs
    ]
    model = source.workload.name, code_sha256(source.workload.directory), source.state_sha256
    key = (LAYOUT, *model, conversion, source.input_structure, shapes)
    return hashlib.sha256(encode_json(key)).hexdigest()


def _make(directory: Path, source: TorchSource, engine: str, conversion: Conversion, write: Write) -> None:
    """Write a directory beside the final one and rename it, so that other processes see a complete one or none."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = directory.with_name(f".{directory.name}-{secrets.token_hex(4)}.tmp")
    temporary.mkdir()
    try:
        parts = _explained(source, engine, lambda: tuple(write(temporary)))
        paths = sorted(temporary.rglob("*"))
        for path in paths:
            sync(path)
        sizes = _sizes(temporary, [path.relative_to(temporary).as_posix() for path in paths if path.is_file()])
        manifest = _Manifest(conversion, source.state_sha256, _sha256(temporary, sizes), sizes, parts)
        write_atomically(temporary / MANIFEST, encode_json(manifest))
        sync(temporary)
        if _read(directory / MANIFEST, _Manifest) is None:
            shutil.rmtree(directory, ignore_errors=True)
        try:
            temporary.replace(directory)
            sync(directory.parent)
        except OSError:
            # A directory that is not empty cannot be replaced: another process was faster.
            if _read(directory / MANIFEST, _Manifest) is None:
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _explained(source: TorchSource, engine: str, convert: Callable[[], T]) -> T:
    try:
        return convert()
    except (ModelzooError, OSError):
        raise
    except Exception as error:  # exporters raise errors of many types
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0] if lines else "no reason given"
        raise UsageError(
            f"{source.workload.name} cannot be exported for {engine}: {type(error).__name__}: {reason}; run it with "
            "--engine torch"
        ) from error


def _sizes(directory: Path, names: Iterable[str]) -> dict[str, int]:
    return {name: (directory / name).stat().st_size for name in names}


def _sha256(directory: Path, sizes: Mapping[str, int]) -> str:
    digest = hashlib.sha256()
    for name, size in sizes.items():
        digest.update(f"{name} {size} ".encode())
        with (directory / name).open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def _is_intact(directory: Path, manifest: _Manifest) -> bool:
    """Whether all files are as they were written."""
    try:
        return _sha256(directory, manifest.files) == manifest.sha256
    except OSError:
        return False


def _is_unchanged(export: Export) -> bool:
    """Whether it is still the one that was prepared, as far as its manifest and the sizes of its files tell."""
    directory = Path(export.path)
    manifest = _read(directory / MANIFEST, _Manifest)
    try:
        return (
            manifest is not None
            and manifest.sha256 == export.sha256
            and manifest.files == _sizes(directory, manifest.files)
        )
    except OSError:
        return False


def _save_batch(directory: Path, source: TorchSource) -> str:
    """Write the batch, unless it is there; return its name."""
    import numpy as np

    digest = inputs_digest(source.inputs)
    if digest is None:
        raise UsageError(
            f"the inputs of {source.workload.name} hold values that numpy cannot represent, so no other engine than "
            "torch can read them; run with --engine torch"
        )
    name = f"batch-{digest[:16]}"
    if _read(directory / f"{name}.json", Batch) is not None:
        return name
    expected = source.expected
    arrays = {
        **_numbered("input", [np.asarray(each) for each in source.flat_inputs]),
        **_numbered("output", expected.outputs),
        **_numbered("head", expected.heads),
        **_numbered("changed-output", expected.changed_outputs),
        **_numbered("changed-head", expected.changed_heads),
        **_numbered("rounded-output", expected.rounded_outputs),
        **_numbered("rounded-head", expected.rounded_heads),
    }
    with replace_atomically(directory / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    is_changed = bool(expected.changed_outputs)
    batch = Batch(
        source.inputs.items, source.input_structure, expected.structure, expected.head_names, is_changed, source.flops
    )
    write_atomically(directory / f"{name}.json", encode_json(batch))
    return name


def _numbered(prefix: str, arrays: Sequence[Any]) -> dict[str, Any]:
    return {f"{prefix}{number}": array for number, array in enumerate(arrays)}


def read_batch(export: Export) -> Batch:
    """Return how the batch of ``export`` is nested.

    Raises:
        EnvironmentProblem: its file is gone.
    """
    batch = _read(Path(export.path) / f"{export.batch}.json", Batch)
    if batch is None:
        raise _gone(export)
    return batch


def read_inputs(export: Export) -> Inputs:
    """Return the batch of ``export`` as nested numpy arrays; they have the digest of the workload's own inputs.

    Raises:
        EnvironmentProblem: its file is gone, or the model's files have changed.
    """
    if not _is_unchanged(export):
        raise _gone(export)
    batch = read_batch(export)
    arrays = _read_arrays(export, "input", batch.inputs.count)
    return Inputs(rebuild(batch.inputs, arrays), batch.items)


def read_expected(export: Export, *, rounded: bool = False) -> RawOutputs:
    """Return torch's outputs for the batch of ``export`` in fp32; with every number ``rounded`` to bf16 if asked for.

    Raises:
        EnvironmentProblem: its file is gone.
    """
    return _read_outputs(export, read_batch(export), "rounded-" if rounded else "")


def read_changed(export: Export) -> RawOutputs | None:
    """Return torch's outputs for inputs that differ slightly, as ``read_expected``; ``None`` if the inputs cannot."""
    batch = read_batch(export)
    return _read_outputs(export, batch, "changed-") if batch.is_changed else None


def _read_outputs(export: Export, batch: Batch, prefix: str) -> RawOutputs:
    outputs = _read_arrays(export, f"{prefix}output", batch.outputs.count)
    return RawOutputs(tuple(outputs), tuple(_read_arrays(export, f"{prefix}head", len(batch.heads))))


def flat_arrays(args: tuple[Any, ...]) -> list[NDArray[Any]]:
    """Return the arrays in nested arguments, in order, as contiguous numpy arrays; tensors are on the CPU."""
    import numpy as np

    return [np.ascontiguousarray(np.asarray(each)) for each in flatten(args)[1]]


def _read_arrays(export: Export, prefix: str, count: int) -> list[NDArray[Any]]:
    import numpy as np

    try:
        # np.load would leave a damaged file open.
        with (
            (Path(export.path) / f"{export.batch}.npz").open("rb") as file,
            np.load(file, allow_pickle=False) as stored,
        ):
            return [stored[f"{prefix}{number}"] for number in range(count)]
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise _gone(export) from error


def _gone(export: Export) -> EnvironmentProblem:
    place = Path(export.path)
    return EnvironmentProblem(f"the exported model in {os.fspath(place)} cannot be read any more; run again")


def _read(path: Path, kind: type[T]) -> T | None:
    """The record in a file; ``None`` if it is not there or is of another version."""
    try:
        return decode(kind, msgspec.json.decode(path.read_bytes()))
    except (OSError, msgspec.DecodeError):
        return None

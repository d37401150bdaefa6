"""The pictures of a data set: where each one is, how to read it, and what is known about it.

Data sets for classification come in their usual layouts: a directory for each class, WordNet ids in the file names, or
a file that gives the classes of pictures.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from modelzoo.errors import InputError, UsageError
from modelzoo.frozen import replace
from modelzoo.machine.linux import allowed_cpus, leave_bound_cpu
from modelzoo.records.exhibits import PictureSource
from modelzoo.records.partial import PictureNote
from modelzoo.records.validity import DataNote, DataNoteKind, ValidityRequest
from modelzoo.workload import inputs

T = TypeVar("T")
Stored = tuple[tuple[int, int], int]
"""A picture's (width, height) as stored, and its EXIF orientation."""
_WNID = re.compile(r"(?<![0-9A-Za-z])(n\d{8})(?![0-9])")
_LABEL_FILES = {
    "val.txt": re.compile(r"(.+?)[\s,]+(n\d{8}|\d+)\s*"),
    "LOC_val_solution.csv": re.compile(r"([^,]+),\s*(n\d{8})\b.*"),
}
"""Lines of the files that give the classes of pictures: as Caffe reads them, and as Kaggle publishes them."""
_KIT_FILE = "ILSVRC2012_validation_ground_truth.txt"
MOST_THREADS = 16
"""Threads that open pictures at once; each may hold one of 24 megapixels."""
MAPPED = 5
"""Classes that a note names."""


class PictureItem(msgspec.Struct, frozen=True):
    """A picture of a data set.

    Attributes:
        name: what tables call it.
        source: where it is and how it is read.
        label: index of its class, if known.
        image_id: its id in an annotation file, if there is one.
    """

    name: str
    source: PictureSource
    label: int | None = None
    image_id: int | str | None = None


def read(source: PictureSource) -> inputs.Picture:
    """Read a picture as RGB, cropped, mirrored and reduced as ``source`` says.

    Raises:
        InputError: it cannot be read.
    """
    from PIL import ImageOps

    if source.path is None:
        image = inputs.photograph()
        picture = inputs.Picture(image, image.size)
    else:
        picture = inputs.read_picture(Path(source.path), upright=source.upright)
        image = picture.image
    size, notes = picture.size, picture.notes
    if source.crop is not None:
        image = image.crop(source.crop)
        size = image.size
    if source.mirrored:
        image = ImageOps.mirror(image)
    if source.longest is not None and max(image.size) > source.longest:
        image.thumbnail((source.longest, source.longest))
        notes = (*notes, PictureNote.REDUCED)
    return inputs.Picture(image, size, notes)


def sampled(items: Sequence[T], limit: int | None, seed: int) -> Sequence[T]:
    """At most ``limit`` of ``items``, sampled with ``seed``, in their order; the same on every machine."""
    if limit is None or limit >= len(items):
        return items
    chosen = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[index] for index in chosen]


def pictures_at(data: Path) -> dict[str, Path]:
    """Return the pictures in a directory, or the one that ``data`` is, by their names in results.

    Raises:
        InputError: no such path, or no pictures.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or directory")
    if data.is_file():
        return {data.name: data}
    found = {str(path.relative_to(data)): path for path in inputs.find_pictures(data)}
    if not found:
        raise InputError(f"{data} holds no images ({', '.join(inputs.SUFFIXES)})")
    return found


def without_bad(
    items: Sequence[T], problems: Sequence[str], skip_bad: bool, item: str = "picture"
) -> tuple[list[T], list[DataNote]]:
    """Return the items that can be judged, and a note of how many others are left out.

    Args:
        problems: of each item, why it cannot be judged; empty if it can.
        skip_bad: whether those that cannot are left out.

    Raises:
        InputError: some cannot and are not to be left out, or none can.
    """
    bad = [each for each in problems if each]
    if bad and (not skip_bad or len(bad) == len(items)):
        advice = "" if skip_bad else "; mend or remove them, or leave them out with --skip-bad"
        raise InputError(f"{len(bad)} of {len(items)} {item}s cannot be judged: {bad[0]}{advice}")
    found = [each for each, problem in zip(items, problems) if not problem]
    return found, [DataNote(DataNoteKind.SKIPPED, len(bad), some(bad, 1))] if bad else []


def some(names: Sequence[str], count: int = MAPPED) -> tuple[str, ...]:
    """The first ``count`` of ``names``, and an ellipsis if there are more."""
    return (*names[:count], *(["…"] if len(names) > count else []))


def probed(items: Sequence[PictureItem]) -> list[Stored | str]:
    """Open and decode every picture; return what is stored, or why it cannot be read."""

    def probe(item: PictureItem) -> Stored | str:
        try:
            return inputs.probe_picture(Path(item.source.path or ""))
        except InputError as error:
            return str(error)

    threads = min(len(allowed_cpus()), MOST_THREADS)
    with inputs.large_pictures_allowed(), ThreadPoolExecutor(threads, initializer=leave_bound_cpu) as pool:
        return list(pool.map(probe, items))


def readable(items: Sequence[PictureItem], request: ValidityRequest) -> tuple[list[PictureItem], list[DataNote]]:
    """Return the pictures of the sample that ``request`` asks for, of which each has been decoded once."""
    chosen = sampled(items, request.limit, request.seed)
    problems = [each if isinstance(each, str) else "" for each in probed(chosen)]
    return without_bad(chosen, problems, request.skip_bad)


def builtin_crops(count: int, seed: int, min_scale: float) -> list[PictureItem]:
    """Different crops of the built-in photograph, every second one mirrored; the first is the whole photograph.

    Args:
        count: number of crops.
        seed: seed of their positions and sizes.
        min_scale: smallest side of a crop, relative to that of the photograph.
    """
    (width, height), generator = inputs.photograph().size, random.Random(seed)
    items = []
    for index in range(count):
        scale = 1.0 if index == 0 else min_scale + (1 - min_scale) * generator.random()
        size = (round(width * scale), round(height * scale))
        left, top = (round((whole - part) * generator.random()) for whole, part in zip((width, height), size))
        source = PictureSource(crop=(left, top, left + size[0], top + size[1]), mirrored=index % 2 == 1)
        items.append(PictureItem(f"crop_{index:02d}", source))
    return items


def reduced(items: Sequence[PictureItem], longest: int | None) -> list[PictureItem]:
    """``items``, each reduced to ``longest`` pixels on its longer side when it is read."""
    return [replace(item, source=replace(item.source, longest=longest)) for item in items]


def class_group(label: int) -> str:
    """The group of the ImageNet class ``label`` (0 to 999): "dogs", "food", …

    Their order by WordNet id keeps related classes together. A sample of the data set has few pictures per class, but
    enough per group.
    """
    groups: list[tuple[int, str]] = [(first, name) for first, name in _imagenet()["groups"]]
    return groups[bisect_right(groups, (label, "\uffff")) - 1][1]


def wnids() -> tuple[str, ...]:
    """The WordNet ids of the 1,000 ImageNet classes, in the order of the models' outputs."""
    return tuple(_imagenet()["wnids"])


@cache
def _imagenet() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(Path(__file__).with_name("imagenet_wnids.json").read_text(encoding="utf-8"))
    return stored


def read_classes(
    request: ValidityRequest, names: Sequence[str], ids: Sequence[str] | None
) -> tuple[list[PictureItem], list[DataNote]]:
    """Return the pictures of ``request.data``, either all with labels or none, and what is to be said about them.

    Classes are known from directories that are named by WordNet id, by class name or, for 1,000 classes, by index
    (ImageNetV2's layout: github.com/modestyachts/ImageNetV2, issue 4); from as many directories as there are classes,
    in sorted order like torchvision's ``ImageFolder``; from WordNet ids in the file names; or from a ``val.txt`` or
    ``LOC_val_solution.csv`` in the directory or the one above.

    Args:
        names: the model's class names. ids: its WordNet ids, if the classes are ImageNet's.

    Raises:
        InputError: no such path, no pictures, a picture that cannot be read or whose class is not one of the model's.
        UsageError: there are not as many ``ids`` as ``names``.
    """
    data = Path(request.data or "")
    if ids is not None and len(ids) != len(names):
        raise UsageError(f"the workload declares {len(names)} labels but {len(ids)} WordNet ids")
    paths = pictures_at(data)
    labels, key, notes = ({}, str, []) if data.is_file() else _classes(data, list(paths.values()), names, ids or ())
    keys = [key(path) for path in paths.values()]
    items = [
        PictureItem(name, PictureSource(str(path), upright=not labels), labels.get(each))
        for (name, path), each in zip(paths.items(), keys)
    ]
    if labels:
        unknown = "{}: {!r} is not one of this model's {} classes"
        problems = ["" if each in labels else unknown.format(path, each, len(names)) for path, each in zip(paths, keys)]
        items, skipped = without_bad(items, problems, request.skip_bad)
        notes = [*notes, *skipped]
    items, skipped = readable(items, request)
    return items, [*notes, *skipped]


Labels = tuple[Mapping[str, int], Callable[[Path], str], list[DataNote]]
"""The class by a key, what gives the key of a picture, and what is to be said; no classes if none are known."""


def _classes(data: Path, paths: Sequence[Path], names: Sequence[str], ids: Sequence[str]) -> Labels:
    def folder(path: Path) -> str:
        return path.parent.name if path.parent != data else path.name

    def noted(kind: DataNoteKind, labels: Mapping[str, int]) -> list[DataNote]:
        mapping = [f"{each} is {names[label]}" for each, label in labels.items()]
        return [DataNote(kind, len(labels), some(mapping))]

    folders = sorted({path.parent.name for path in paths if path.parent != data})
    index = {wnid: number for number, wnid in enumerate(ids)}
    if any(_WNID.fullmatch(each) for each in folders) and index:
        return index, folder, []
    # Ambiguous names (ImageNet has two cranes and two maillots) are left out.
    plain = [_plain(name) for name in names]
    named = {each: plain.index(_plain(each)) for each in folders if plain.count(_plain(each)) == 1}
    if named:
        return named, folder, []
    if folders and len(names) == 1000 and all(each.isdecimal() for each in folders):
        numbers = {each: int(each) for each in folders}
        if (largest := max(numbers.values())) >= len(names):
            raise InputError(f"{data}: directories named by number are class indices from 0 to 999, not {largest}")
        return numbers, folder, noted(DataNoteKind.NUMBERED_CLASSES, numbers)
    if len(folders) == len(names):
        in_order = {each: number for number, each in enumerate(folders)}
        return in_order, folder, noted(DataNoteKind.SORTED_CLASSES, in_order)
    if index and any(_WNID.search(path.name) for path in paths):
        return index, lambda path: (_WNID.findall(path.name) or [path.name])[0], []
    return _listed(data, paths, len(names), index) or (
        {},
        folder,
        [DataNote(DataNoteKind.NO_CLASSES, len(folders))] if folders else [],
    )


def _listed(data: Path, paths: Sequence[Path], count: int, index: Mapping[str, int]) -> Labels | None:
    """The classes by a label file, of which each line names a picture, and an index from 0 or a WordNet id."""
    places = [place / name for name in _LABEL_FILES for place in (data, data.parent)]
    for file in (each for each in places if each.is_file()):
        labels: dict[str, int] = {}
        for line in map(_LABEL_FILES[file.name].fullmatch, inputs.read_text(file).splitlines()):
            if line is None:
                continue
            label = index.get(line[2], -1) if line[2].startswith("n") else int(line[2])
            if not 0 <= label < count:
                raise InputError(f"{file}: class {line[2]} of {line[1]} is not one of this model's {count}, from 0")
            if labels.setdefault(Path(line[1]).stem, label) != label:
                raise InputError(f"{file}: {line[1]} has two classes")
        if any(path.stem in labels for path in paths):
            return labels, lambda path: path.stem, [DataNote(DataNoteKind.LABEL_FILE, len(labels), (str(file),))]
    for place in (data, data.parent):
        if (place / _KIT_FILE).is_file():
            raise InputError(
                f"{place / _KIT_FILE} numbers classes by the ILSVRC development kit, not by sorted WordNet id as this "
                "model does; write a val.txt of lines 'NAME WNID' by the kit's meta.mat, or move the file away"
            )
    return None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name.lower()).strip()

"""The pictures of a data set: where each one is, how to read it, and what is known about it.

Data sets for classification come in their usual layouts: one directory per class, or WordNet ids in the file names.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Optional, TypeVar, Union

import msgspec

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import PictureSource
from modelzoo.records.partial import PictureNote
from modelzoo.workload.inputs import SUFFIXES, Picture, find_pictures, photograph, read_picture

T = TypeVar("T")
_WNID = re.compile(r"(?<![0-9A-Za-z])(n\d{8})(?![0-9])")
GROUPS = (
    (0, "fish"),
    (7, "birds"),
    (25, "amphibians and reptiles"),
    (69, "invertebrates"),
    (80, "birds"),
    (101, "other mammals"),
    (107, "invertebrates"),
    (127, "birds"),
    (147, "other mammals"),
    (151, "dogs"),
    (269, "other mammals"),
    (281, "cats"),
    (294, "other mammals"),
    (300, "invertebrates"),
    (330, "other mammals"),
    (389, "fish"),
    (398, "objects"),
    (924, "food"),
    (970, "landscapes"),
    (981, "people"),
    (984, "plants and fungi"),
    (999, "objects"),
)
"""First class and name of each group of the 1,000 ImageNet classes, whose order by WordNet id keeps related ones
together. A sample of the data set has few pictures per class, but enough per group."""


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
    label: Optional[int] = None
    image_id: Union[int, str, None] = None

    @property
    def file(self) -> Optional[Path]:
        """The picture's file; ``None`` for crops of the built-in photograph."""
        return None if self.source.path is None else Path(self.source.path)

    def read(self) -> Picture:
        """Read the picture as RGB; raises ``InputError`` if that is impossible."""
        return read(self.source)

    def identity(self) -> str:
        """What tells the picture from others, without the directory that it is in: name, label, size of its file …

        Raises:
            InputError: the file cannot be read.
        """
        try:
            size = 0 if self.file is None else self.file.stat().st_size
        except OSError as error:
            raise InputError(f"{self.file} cannot be read: {error.strerror}") from error
        parts = (self.name, self.label, self.image_id, replace(self.source, path=None), size)
        return encode_json(parts).decode()


def read(source: PictureSource) -> Picture:
    """Read a picture as RGB, cropped, mirrored and reduced as ``source`` says.

    Raises:
        InputError: it cannot be read.
    """
    from PIL import ImageOps

    if source.path is None:
        image = photograph()
        picture = Picture("photograph", image, image.size)
    else:
        picture = read_picture(Path(source.path), upright=source.upright)
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
    return Picture(picture.name, image, size, notes)


def sampled(items: Sequence[T], limit: Optional[int], seed: int) -> Sequence[T]:
    """At most ``limit`` of ``items``, sampled with ``seed``, in their order; the same on every machine."""
    if limit is None or limit >= len(items):
        return items
    chosen = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[index] for index in chosen]


def builtin_crops(count: int, seed: int, min_scale: float) -> list[PictureItem]:
    """Different crops of the built-in photograph, every second one mirrored; the first is the whole photograph.

    Args:
        count: number of crops.
        seed: seed of their positions and sizes.
        min_scale: smallest side of a crop, relative to that of the photograph.
    """
    (width, height), generator = photograph().size, random.Random(seed)
    items = []
    for index in range(count):
        scale = 1.0 if index == 0 else min_scale + (1 - min_scale) * generator.random()
        size = (round(width * scale), round(height * scale))
        left, top = (round((whole - part) * generator.random()) for whole, part in zip((width, height), size))
        source = PictureSource(crop=(left, top, left + size[0], top + size[1]), mirrored=index % 2 == 1)
        items.append(PictureItem(f"crop_{index:02d}", source))
    return items


def reduced(items: Sequence[PictureItem], longest: Optional[int]) -> list[PictureItem]:
    """``items``, each reduced to ``longest`` pixels on its longer side when it is read."""
    return [replace(item, source=replace(item.source, longest=longest)) for item in items]


def class_group(label: int) -> str:
    """The group of the ImageNet class ``label`` (0 to 999): "dogs", "food", …"""
    return GROUPS[bisect_right(GROUPS, (label, "\uffff")) - 1][1]


def wnids() -> tuple[str, ...]:
    """The WordNet ids of the 1,000 ImageNet classes, in the order of the models' outputs."""
    stored = json.loads(Path(__file__).with_name("imagenet_wnids.json").read_text(encoding="utf-8"))
    return tuple(stored["wnids"])


def read_classes(data: Path, names: Sequence[str], ids: Optional[Sequence[str]]) -> list[PictureItem]:
    """Return the pictures of ``data``, either all with labels or none.

    Classes are known from directories named by WordNet id or by class name, from one directory for each class (in
    sorted order, like torchvision's ``ImageFolder``), or from WordNet ids in the file names.

    Args:
        data: a directory, or one picture.
        names: the model's class names. ids: its WordNet ids, if the classes are ImageNet's.

    Raises:
        InputError: no such path, no pictures, or a class that the model does not have.
    """
    if not data.exists():
        raise InputError(f"{data}: no such file or directory")
    if data.is_file():
        return [_item(data, data.name, None)]
    paths = find_pictures(data)
    if not paths:
        raise InputError(f"{data} holds no images ({', '.join(SUFFIXES)})")
    labels = _labels(data, paths, names, {wnid: number for number, wnid in enumerate(ids or ())})
    return [_item(path, str(path.relative_to(data)), label) for path, label in zip(paths, labels)]


def _labels(data: Path, paths: Sequence[Path], names: Sequence[str], index: dict[str, int]) -> Sequence[Optional[int]]:
    in_folders = all(path.parent != data for path in paths)
    if in_folders:
        folders = sorted({path.parent.name for path in paths})
        by_name = _by_name(names)
        if index and all(_WNID.fullmatch(folder) for folder in folders):
            return [_known(path.parent.name, index, path) for path in paths]
        if all(_plain(folder) in by_name for folder in folders):
            return [by_name[_plain(path.parent.name)] for path in paths]
        if len(folders) == len(names):
            return [folders.index(path.parent.name) for path in paths]
    if index and all(_WNID.search(path.name) for path in paths):
        return [_known(_wnid(path.name), index, path) for path in paths]
    return [None] * len(paths)


def _item(path: Path, name: str, label: Optional[int]) -> PictureItem:
    return PictureItem(name, PictureSource(str(path), upright=label is None), label)


def _wnid(name: str) -> str:
    match = _WNID.search(name)
    return match.group(1) if match else ""


def _known(wnid: str, index: dict[str, int], path: Path) -> int:
    if wnid not in index:
        raise InputError(f"{path}: class {wnid} is not one of this model's {len(index)}")
    return index[wnid]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", name.lower()).strip()


def _by_name(names: Sequence[str]) -> dict[str, int]:
    """Index by class name; ambiguous names (ImageNet has two cranes and two maillots) are left out."""
    plain = [_plain(name) for name in names]
    return {name: number for number, name in enumerate(plain) if plain.count(name) == 1}

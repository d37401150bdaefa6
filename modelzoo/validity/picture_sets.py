"""The pictures of a data set: where each one is, how to read it, and what is known about it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, TypeVar, Union

from modelzoo.errors import InputError
from modelzoo.frozen import replace
from modelzoo.records.codec import encode_json
from modelzoo.records.exhibits import PictureSource
from modelzoo.records.partial import PictureNote
from modelzoo.workload.inputs import Picture, photograph, read_picture

T = TypeVar("T")


@dataclass(frozen=True)
class PictureItem:
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

"""Read pictures of any kind that people have into RGB, in bounded memory; the built-in crops.

Every picture is read by Pillow. Large JPEGs are decoded at reduced scale (Pillow's ``draft``), so that a
100-megapixel picture costs no more memory than a camera's.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from modelzoo.errors import InputError

SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"))
MIN_SIDE = 10
"""Pixels. ImageNet's validation set holds nothing smaller; there is nothing to recognise in it."""
LARGE = 24_000_000
"""Pixels from which a picture is reduced while it is read: a usual camera's."""
LARGEST = 128_000_000
"""Pixels up to which a picture that cannot be decoded at reduced scale is read: 384 MB once."""
LARGEST_DRAFT = 2_000_000_000
REDUCED_SIDE = 3000
"""Pixels of the longer side after the reduction."""

_one_large_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """An RGB picture, the (width, height) of its file, and what was done to read it."""

    name: str
    image: Any
    size: tuple[int, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """A picture of a set: its name, how to read it, its class where known, its id in an annotation file."""

    name: str
    read: Callable[[], Picture]
    label: int | None = None
    image_id: int | None = None


@contextlib.contextmanager
def large_pictures_allowed() -> Iterator[None]:
    """Switch Pillow's guard against decompression bombs off: ``read_picture`` has bounds of its own."""
    from PIL import Image

    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def read_picture(path: Path, name: str = "", upright: bool = False) -> Picture:
    """Read ``path`` as RGB: first frame of an animation, 16 bits scaled to 8, CMYK and palettes converted.

    Args:
        upright: turn it as its EXIF orientation says; annotated sets are taken as stored.

    Raises:
        InputError: missing, no picture, truncated, smaller than 10 pixels, too large, or of floats.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as image:
            size = image.size
            _bounded(path, size, image.format)
            notes = []
            if getattr(image, "n_frames", 1) > 1 and getattr(image, "is_animated", False):
                notes.append("animated: the first frame was taken")
            with _one_large_at_a_time if size[0] * size[1] > LARGE else contextlib.nullcontext():
                if size[0] * size[1] > LARGE:
                    image.draft("RGB", _fitted(size))
                    notes.append("large: decoded at reduced size")
                rgb = _as_rgb(image, path, notes)
                if rgb.size[0] * rgb.size[1] > LARGE or (notes and max(rgb.size) > REDUCED_SIDE < max(size)):
                    rgb.thumbnail((REDUCED_SIDE, REDUCED_SIDE))
            if upright:
                rgb = ImageOps.exif_transpose(rgb)
                if (rgb.size[0] < rgb.size[1] and size[0] > size[1]) or (
                    rgb.size[0] > rgb.size[1] and size[0] < size[1]
                ):
                    size = (size[1], size[0])
    except FileNotFoundError:
        raise InputError(f"{path}: no such picture") from None
    except InputError:
        raise
    except Image.UnidentifiedImageError:
        raise InputError(f"{path} is not a picture that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, MemoryError, EOFError) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from None
    return Picture(name or path.name, rgb, size, tuple(notes))


def _bounded(path: Path, size: tuple[int, int], format: str | None) -> None:
    if min(size) < MIN_SIDE:
        raise InputError(f"{path} is {size[0]}×{size[1]} pixels: too small to hold anything; leave it out")
    largest = LARGEST_DRAFT if format == "JPEG" else LARGEST
    if size[0] * size[1] > largest:
        raise InputError(
            f"{path} has {size[0] * size[1] / 1e6:.0f} megapixels, over the limit of {largest / 1e6:.0f}; reduce it"
        )


def _fitted(size: tuple[int, int]) -> tuple[int, int]:
    """The size with the longer side reduced to ``REDUCED_SIDE``."""
    share = REDUCED_SIDE / max(size)
    return max(1, round(size[0] * share)), max(1, round(size[1] * share))


def _as_rgb(image: Any, path: Path, notes: list[str]) -> Any:
    """Convert the first frame; ``convert`` alone would clip 16-bit pictures to white."""
    from PIL import Image

    if image.mode == "F":
        raise InputError(f"{path} holds floating-point pixels, whose range is unknown; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        import numpy as np

        notes.append("16-bit: scaled to 8 bits")
        values = np.asarray(image).astype("int64").clip(0, 65535)
        return Image.fromarray((values >> 8).astype("uint8")).convert("RGB")
    if image.mode == "CMYK":
        notes.append("CMYK: converted to RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def found(directory: Path) -> list[Path]:
    """Pictures by suffix under ``directory``, sorted; hidden ones are left out."""
    return sorted(
        path
        for path in directory.rglob("*")
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def sampled(items: list[Any], limit: int | None, seed: int) -> list[Any]:
    """At most ``limit`` of ``items``, drawn with ``seed``, in their order; the same on every machine."""
    if limit is None or limit >= len(items):
        return items
    chosen = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[index] for index in chosen]


def photograph() -> Path:
    """The photograph that matplotlib ships: Grace Hopper, 512×606, public domain."""
    from matplotlib import get_data_path

    path = Path(get_data_path()) / "sample_data" / "grace_hopper.jpg"
    if not path.is_file():
        raise InputError("matplotlib's sample_data/grace_hopper.jpg is missing; reinstall matplotlib or give --data")
    return path


def builtin(count: int, seed: int, smallest: float) -> list[Item]:
    """``count`` distinct crops of the photograph, of ``smallest`` to 1 of its sides, half of them flipped."""
    draw = random.Random(seed)
    items = []
    for index in range(count):
        scale = 1.0 if index == 0 else smallest + (1 - smallest) * draw.random()
        box = (draw.random(), draw.random(), scale)
        flip = index % 2 == 1
        name = f"crop_{index:02d}"
        items.append(Item(name, _Crop(name, box, flip)))
    return items


@dataclass(frozen=True)
class _Crop:
    """Reads one crop: (left, top) as shares of the room there is, and the scale."""

    name: str
    place: tuple[float, float, float]
    flip: bool

    def __call__(self) -> Picture:
        from PIL import Image, ImageOps

        whole = read_picture(photograph()).image
        width, height = (round(side * self.place[2]) for side in whole.size)
        left = round((whole.size[0] - width) * self.place[0])
        top = round((whole.size[1] - height) * self.place[1])
        image: Image.Image = whole.crop((left, top, left + width, top + height))
        if self.flip:
            image = ImageOps.mirror(image)
        return Picture(self.name, image, image.size)

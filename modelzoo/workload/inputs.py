"""Pictures and texts to run on: the user's own, or the photograph that matplotlib ships.

There are two ways to crop the photograph, ``pictures`` for timing and ``builtin_crops`` (in
``modelzoo.validity.picture_sets``) for judging. They stay apart because stored results name the crops of each, and
because they serve different ends: a timed batch needs pictures that are different and hold a whole scene, of whatever
picture the user gives. A judged set must be more varied than that, so its crops are smaller and every second one is
mirrored.

Pillow reads every picture, of any common kind, as RGB. Large JPEGs are decoded at reduced scale (Pillow's ``draft``),
so that a picture of 100 megapixels takes no more memory than one from a usual camera.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from modelzoo.errors import InputError
from modelzoo.records.partial import PictureNote

if TYPE_CHECKING:
    from PIL.Image import Image


SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
"""Suffixes of the files in a directory that are taken for pictures, in lower case."""
MIN_SIDE = 10
"""Pixels. ImageNet's validation set holds no smaller picture, and nothing can be recognized in one."""
LARGE_PIXELS = 24_000_000
"""Pictures with more pixels than a usual camera's are reduced while they are read."""
MAX_PIXELS = 128_000_000
"""Limit for pictures that cannot be decoded at reduced scale; such a picture takes 384 MB for a moment."""
MAX_JPEG_PIXELS = 2_000_000_000
REDUCED_SIDE = 3000
"""Longer side, in pixels, of a large picture after it was reduced."""
_EXIF_ORIENTATION = 0x0112
EXIF_QUARTER_TURNS = (5, 6, 7, 8)
"""The orientations that exchange width and height."""

_one_large_at_a_time = threading.Lock()
PHOTOGRAPH = "grace_hopper.jpg"
MAX_DRAWS = 100
"""Draws of a crop until it differs from those before it; a very small picture may have no more crops."""


class Picture(msgspec.Struct, frozen=True):
    """An RGB picture.

    Attributes:
        image: the picture, in mode RGB.
        size: (width, height) of the picture in its file, which ``image`` may be smaller than.
        notes: conversions that were necessary.
    """

    image: Image
    size: tuple[int, int]
    notes: tuple[PictureNote, ...] = ()


@contextlib.contextmanager
def large_pictures_allowed() -> Iterator[None]:
    """Disable Pillow's limit on the number of pixels: ``read_picture`` has limits of its own."""
    import PIL.Image

    before = PIL.Image.MAX_IMAGE_PIXELS
    PIL.Image.MAX_IMAGE_PIXELS = None
    try:
        yield
    finally:
        PIL.Image.MAX_IMAGE_PIXELS = before


def read_picture(path: Path, upright: bool = False, data: bytes | None = None) -> Picture:
    """Read a picture as RGB.

    16-bit pictures are scaled to 8 bits, CMYK and palettes converted; of an animation the first frame is taken.

    Args:
        path: the file.
        upright: rotate the picture as its EXIF orientation says. The boxes of annotated sets refer to the picture as
            stored.
        data: the content of the file, if it has been read already.

    Raises:
        InputError: the file is missing, is not a picture, is truncated, too small, too large, or holds
            floating-point pixels.
    """
    from PIL import ImageOps

    with _opened(path, data) as (image, is_large):
        size, notes = image.size, list[PictureNote]()
        if getattr(image, "n_frames", 1) > 1 and getattr(image, "is_animated", False):
            notes.append(PictureNote.FIRST_FRAME)
        if is_large:
            factor = REDUCED_SIDE / max(size)
            image.draft("RGB", (max(1, round(size[0] * factor)), max(1, round(size[1] * factor))))
            notes.append(PictureNote.LARGE)
        rgb = _as_rgb(image, path, notes)
        if is_large:
            rgb.thumbnail((REDUCED_SIDE, REDUCED_SIDE))
        if upright:
            if rgb.getexif().get(_EXIF_ORIENTATION) in EXIF_QUARTER_TURNS:
                size = (size[1], size[0])
            rgb = ImageOps.exif_transpose(rgb)
        return Picture(rgb, size, tuple(notes))


def probe_picture(path: Path) -> tuple[tuple[int, int], int]:
    """Return a picture's (width, height) as stored and its EXIF orientation (1: upright), after decoding all of it.

    A JPEG is decoded at an eighth of its size, which is fast and finds the same damage.

    Raises:
        InputError: as ``read_picture``.
    """
    with _opened(path) as (image, _):
        size = image.size
        image.draft(None, (1, 1))
        return size, int(_as_rgb(image, path, []).getexif().get(_EXIF_ORIENTATION, 1))


@contextlib.contextmanager
def _opened(path: Path, data: bytes | None = None) -> Iterator[tuple[Any, bool]]:
    """Open a picture of a size that can be judged, and say whether it is large; large ones are open one at a time.

    What Pillow raises becomes ``InputError``, in one line.
    """
    import PIL
    from PIL.Image import DecompressionBombError
    from PIL.Image import open as open_image

    try:
        with open_image(path if data is None else io.BytesIO(data)) as image:
            width, height = image.size
            if min(image.size) < MIN_SIDE:
                raise InputError(f"{path} is {width}×{height} pixels: too small to hold anything; leave it out")
            limit = MAX_JPEG_PIXELS if image.format == "JPEG" else MAX_PIXELS
            if width * height > limit:
                raise InputError(
                    f"{path} has {width * height / 1e6:.0f} megapixels, over the limit of {limit / 1e6:.0f}; reduce it"
                )
            is_large = width * height > LARGE_PIXELS
            with _one_large_at_a_time if is_large else contextlib.nullcontext():
                yield image, is_large
    except FileNotFoundError:
        raise InputError(f"no such image: {path}") from None
    except PIL.UnidentifiedImageError:
        raise InputError(f"{path} is not an image that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, MemoryError, EOFError, DecompressionBombError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} cannot be read as an image: {reason}") from None


def _as_rgb(image: Image, path: Path, notes: list[PictureNote]) -> Image:
    """Convert the first frame, and add to ``notes`` what was necessary."""
    if image.mode == "F":
        raise InputError(f"{path} holds floating-point pixels, whose range is unknown; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        import numpy as np
        from PIL.Image import fromarray

        # Pillow's convert() would clip 16-bit values to white.
        notes.append(PictureNote.TO_8_BITS)
        values = np.asarray(image).astype("int64").clip(0, 65535)
        return fromarray((values >> 8).astype("uint8")).convert("RGB")
    if image.mode == "CMYK":
        notes.append(PictureNote.FROM_CMYK)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def find_pictures(directory: Path, recursive: bool = True, above: frozenset[Path] = frozenset()) -> list[Path]:
    """Return the pictures in a directory by their suffixes, sorted.

    Hidden files and directories are left out. Links are followed, except to a directory that they are in (``above``).

    Raises:
        InputError: a directory cannot be read.
    """
    inside, found = above | {directory.resolve()}, list[Path]()
    try:
        entries = [each for each in directory.iterdir() if not each.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}") from None
    for path in entries:
        if path.is_dir():
            if recursive and path.resolve() not in inside:
                found += find_pictures(path, recursive, inside)
        elif path.suffix.lower() in SUFFIXES and (path.is_file() or path.is_symlink()):
            found.append(path)
    return sorted(found)


def photograph() -> Image:
    """Return the photograph that matplotlib ships: Grace Hopper, 512 × 600 pixels, RGB, public domain.

    Raises:
        InputError: this installation of matplotlib lacks it.
    """
    return read_picture(_photograph_file()).image


def _photograph_file() -> Path:
    spec = importlib.util.find_spec("matplotlib")
    for place in (spec.submodule_search_locations if spec is not None else None) or ():
        path = Path(place) / "mpl-data" / "sample_data" / PHOTOGRAPH
        if path.is_file():
            return path
    # Distributions put it elsewhere; importing matplotlib, which knows where, takes long.
    from matplotlib import get_data_path

    path = Path(get_data_path()) / "sample_data" / PHOTOGRAPH
    if not path.is_file():
        raise InputError(
            f"matplotlib's sample_data/{PHOTOGRAPH} is missing; reinstall matplotlib, or give images with --input"
        )
    return path


class PictureFile(msgspec.Struct, frozen=True):
    """A picture as the bytes of its file, with the crop of it that is wanted.

    Attributes:
        name: what results call it.
        path: the file.
        data: its content.
        box: left, top, right and bottom edge of the crop, in pixels of the upright picture; ``None``: all of it.
    """

    name: str
    path: Path
    data: bytes
    box: tuple[int, int, int, int] | None

    def decode(self) -> Image:
        """Return the picture as RGB, upright."""
        with large_pictures_allowed():
            image = read_picture(self.path, upright=True, data=self.data).image
        return image if self.box is None else image.crop(self.box)


def pictures(count: int, seed: int, path: Path | None, skip: int = 0) -> list[tuple[Image, str]]:
    """Return a batch of different pictures, as RGB, with their names.

    Args:
        count: number of pictures.
        seed: seed of the crops.
        path: a picture, or a directory whose pictures are taken in the order of their names; ``None`` for the
            photograph that matplotlib ships. If there are fewer pictures than ``count``, crops of them follow, of 60
            to 95 % of each side.
        skip: how many to leave out at the beginning (``InputRequest.skip``).

    Raises:
        InputError: there is no readable picture at ``path``.
    """
    whole = _read_all(_files(path, count + skip))
    chosen = _choose([(image.size, name) for image, name in whole], count + skip, seed)[skip:]
    return [(whole[index][0] if box is None else whole[index][0].crop(box), name) for index, box, name in chosen]


def picture_files(count: int, seed: int, path: Path | None) -> list[PictureFile]:
    """Return the pictures of ``pictures`` with the same arguments, not yet decoded.

    Raises:
        InputError: there is no readable picture at ``path``.
    """
    files = _files(path, count)
    data = [file.read_bytes() for file in files]
    chosen = _choose([(image.size, name) for image, name in _read_all(files)], count, seed)
    return [PictureFile(name, files[index], data[index], box) for index, box, name in chosen]


def _choose(
    whole: Sequence[tuple[tuple[int, int], str]], count: int, seed: int
) -> list[tuple[int, tuple[int, int, int, int] | None, str]]:
    """Return the index of a picture, the box of a crop (``None``: the whole) and a name, for each of ``count``."""
    generator = random.Random(seed)
    chosen: list[tuple[int, tuple[int, int, int, int] | None, str]] = [
        (index, None, name) for index, (_, name) in enumerate(whole[:count])
    ]
    names = {name for _, _, name in chosen}
    while len(chosen) < count:
        index = len(chosen) % len(whole)
        for _ in range(MAX_DRAWS):
            (width, height), name = whole[index]
            scale = generator.uniform(0.6, 0.95)
            wide, high = max(1, int(width * scale)), max(1, int(height * scale))
            left, top = generator.randint(0, width - wide), generator.randint(0, height - high)
            box, crop_name = (left, top, left + wide, top + high), f"{name}[{left},{top},{wide}x{high}]"
            if crop_name not in names:
                break
        names.add(crop_name)
        chosen.append((index, box, crop_name))
    return chosen


def _files(path: Path | None, count: int) -> list[Path]:
    if path is None:
        return [_photograph_file()]
    files = find_pictures(path, recursive=False) if path.is_dir() else [path]
    if not files:
        raise InputError(f"no images in {path} (looked for {', '.join(SUFFIXES)})")
    return files[:count]


def _read_all(files: Sequence[Path]) -> list[tuple[Image, str]]:
    with large_pictures_allowed():
        return [(read_picture(file, upright=True).image, file.name) for file in files]


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte order mark and white space around it.

    Raises:
        InputError: the file is missing, empty, or not text.
    """
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; give a text file") from None
    if not text:
        raise InputError(f"{path} holds no text")
    return text


def read_json(path: Path, type_: Any, what: str) -> Any:
    """Return the content of a JSON file, a byte order mark aside, as ``type_``.

    Args:
        type_: what msgspec decodes.
        what: what the file should be, for errors: ``a SQuAD file``.

    Raises:
        InputError: the file is missing, not JSON, or of another form.
    """
    try:
        return msgspec.json.decode(read_text(path), type=type_)
    except msgspec.ValidationError as error:
        raise InputError(f"{path} is not {what}: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None

"""Real inputs: the photograph that matplotlib ships, or the user's own pictures and text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

from modelzoo.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

PHOTOGRAPH = "grace_hopper.jpg"
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm")


def photograph() -> Image:
    """The photograph that the installed matplotlib ships (public domain), RGB, 512 × 606 or so."""
    import matplotlib

    return open_picture(Path(matplotlib.get_data_path()) / "sample_data" / PHOTOGRAPH)


def open_picture(path: Path) -> Image:
    """Read a picture as RGB, turned as its EXIF orientation says.

    Raises:
        InputError: it is missing, or no picture.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            return ImageOps.exif_transpose(picture).convert("RGB")
    except FileNotFoundError:
        raise InputError(f"no such picture: {path}") from None
    except UnidentifiedImageError:
        raise InputError(f"{path} is not a picture that Pillow can read") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"{path} cannot be read as a picture: {error}") from error


def pictures(count: int, seed: int, path: Path | None) -> list[tuple[Image, str]]:
    """``count`` pictures with their names, all different.

    Without ``path`` the first is the whole photograph and the others are crops of it, between 60 and
    95 % of each side, drawn by ``seed``. With a file it and crops of it are taken, with a directory
    its pictures in the order of their names, and crops of them where they are too few.

    Raises:
        InputError: there is no readable picture at ``path``.
    """
    if path is None:
        whole = [(photograph(), PHOTOGRAPH)]
    elif path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in PICTURES)
        if not files:
            raise InputError(f"no pictures in {path} (looked for {', '.join(PICTURES)})")
        whole = [(open_picture(file), file.name) for file in files[:count]]
    else:
        whole = [(open_picture(path), path.name)]
    generator = random.Random(seed)
    chosen = list(whole[:count])
    while len(chosen) < count:
        picture, name = whole[len(chosen) % len(whole)]
        chosen.append(_crop(picture, name, generator))
    return chosen


def _crop(picture: Image, name: str, generator: random.Random) -> tuple[Image, str]:
    share = generator.uniform(0.6, 0.95)
    width, height = max(1, int(picture.width * share)), max(1, int(picture.height * share))
    left = generator.randint(0, picture.width - width)
    top = generator.randint(0, picture.height - height)
    box = (left, top, left + width, top + height)
    return picture.crop(box), f"{name}[{left},{top},{width}x{height}]"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        InputError: it is missing or not text.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; give a text file") from None
    if not text:
        raise InputError(f"{path} holds no text")
    return text

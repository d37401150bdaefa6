"""Pictures of every kind are read as RGB in bounded memory; unreadable ones are errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from modelzoo.errors import InputError
from modelzoo.records.partial import PictureNote
from modelzoo.workload import inputs


def noise(size: tuple[int, int] = (64, 48)) -> Any:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype="uint8")
    return Image.fromarray(pixels)


def refused(path: Path, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        inputs.read_picture(path)
    assert "\n" not in str(caught.value)


def test_missing_truncated_text_and_tiny_pictures_are_refused(tmp_path: Path) -> None:
    """Each error is one line with the reason."""
    refused(tmp_path / "absent.jpg", "no such image")
    whole = tmp_path / "whole.jpg"
    noise((400, 300)).save(whole)
    (tmp_path / "cut.jpg").write_bytes(whole.read_bytes()[:4000])
    refused(tmp_path / "cut.jpg", "truncated")
    (tmp_path / "text.jpg").write_text("this is no picture")
    refused(tmp_path / "text.jpg", "not an image")
    (tmp_path / "empty.png").write_bytes(b"")
    refused(tmp_path / "empty.png", "not an image")
    noise((1, 1)).save(tmp_path / "one.png")
    refused(tmp_path / "one.png", "1×1 pixels")
    Image.fromarray(np.zeros((20, 20), dtype="float32")).save(tmp_path / "float.tif")
    refused(tmp_path / "float.tif", "floating-point")


DEEP = Image.fromarray(np.full((20, 30), 32768, dtype="uint16"))
FRAMES = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]


@pytest.mark.parametrize(
    ("name", "image", "more", "expected", "notes"),
    [
        ("c.jpg", Image.new("CMYK", (40, 30), (0, 255, 255, 0)), {}, (254, 0, 0), (PictureNote.FROM_CMYK,)),
        # Half of the range becomes mid-grey; Pillow's own conversion would make it white.
        ("deep.png", DEEP, {}, (128, 128, 128), (PictureNote.TO_8_BITS,)),
        ("a.gif", FRAMES[0], {"save_all": True, "append_images": FRAMES[1:]}, (255, 0, 0), (PictureNote.FIRST_FRAME,)),
        *((f"{mode}.png", Image.new(mode, (16, 16)), {}, (0, 0, 0), ()) for mode in ("L", "RGBA", "P")),
    ],
    ids=["CMYK", "16 bits", "animation", "grey", "transparent", "palette"],
)
def test_every_picture_becomes_rgb_with_8_bits(
    name: str,
    image: Any,
    more: dict[str, Any],
    expected: tuple[int, ...],
    notes: tuple[PictureNote, ...],
    tmp_path: Path,
) -> None:
    """A note says what was done to it."""
    image.save(tmp_path / name, **more)
    found = inputs.read_picture(tmp_path / name)
    assert found.image.mode == "RGB"
    assert found.image.getpixel((3, 3)) == pytest.approx(expected, abs=20)
    assert found.notes == notes


def test_orientation_is_applied_only_on_request(tmp_path: Path) -> None:
    """By default the picture is as stored, because the boxes of annotated sets refer to that."""
    exif = Image.Exif()
    exif[0x0112] = 6
    noise((64, 48)).save(tmp_path / "turned.jpg", exif=exif)
    assert inputs.read_picture(tmp_path / "turned.jpg").image.size == (64, 48)
    upright = inputs.read_picture(tmp_path / "turned.jpg", upright=True)
    assert upright.image.size == upright.size == (48, 64)


BIG = """
import resource, sys, warnings
from pathlib import Path
from PIL import Image
from modelzoo.workload import inputs
warnings.simplefilter("error")
small = Path(sys.argv[1])
inputs.read_picture(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with inputs.large_pictures_allowed():
    picture = inputs.read_picture(Path(sys.argv[2]))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(*picture.size, *picture.image.size, (after - before) // 1024, *picture.notes)
"""


def test_a_hundred_megapixels_cost_bounded_memory(tmp_path: Path) -> None:
    """A 12,500×8,000 JPEG is decoded at reduced size: it takes less than 100 MB instead of 300."""
    noise().save(tmp_path / "small.jpg")
    Image.new("RGB", (12_500, 8_000), "teal").save(tmp_path / "big.jpg")
    command = [sys.executable, "-c", BIG, str(tmp_path / "small.jpg"), str(tmp_path / "big.jpg")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    width, height, seen_width, seen_height, megabytes, *note = done.stdout.split()
    assert (int(width), int(height)) == (12_500, 8_000)
    assert max(int(seen_width), int(seen_height)) <= inputs.REDUCED_SIDE
    assert int(megabytes) < 100
    assert note == ["large"]


def test_a_picture_over_every_limit_is_refused_before_decoding(tmp_path: Path) -> None:
    """A PNG of 20,000×10,000 pixels, few bytes on disk, is refused by its header; Pillow's own limit is restored."""
    Image.new("1", (20_000, 10_000)).save(tmp_path / "bomb.png")
    before = Image.MAX_IMAGE_PIXELS
    with inputs.large_pictures_allowed():
        refused(tmp_path / "bomb.png", "200 megapixels")
    assert before == Image.MAX_IMAGE_PIXELS

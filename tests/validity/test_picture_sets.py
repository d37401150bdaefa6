"""Pictures of a data set: reading them again as a record says, crops, and samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from modelzoo.records.exhibits import PictureSource
from modelzoo.records.partial import PictureNote
from modelzoo.validity.picture_sets import PictureItem, builtin_crops, read, reduced, sampled


def test_builtin_crops_are_different_pictures_without_labels() -> None:
    """Named by number; each is read again from a record that says where it is."""
    items = builtin_crops(4, 3, 0.5)
    assert items == builtin_crops(4, 3, 0.5) != builtin_crops(4, 4, 0.5)
    assert [(item.name, item.label) for item in items] == [(f"crop_0{number}", None) for number in range(4)]
    assert len({item.read().image.tobytes() for item in items}) == 4


def test_a_source_crops_mirrors_and_reduces(tmp_path: Path) -> None:
    """In this order; the size is that before the reduction, which is noted."""
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype="uint8")
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    picture = read(PictureSource(str(path), crop=(10, 20, 50, 40), mirrored=True))
    assert np.array_equal(np.asarray(picture.image), pixels[20:40, 10:50][:, ::-1])
    (item,) = reduced([PictureItem("a", PictureSource(str(path)))], 40)
    small = item.read()
    assert (small.size, small.image.size) == ((80, 60), (40, 30))
    assert small.notes == (PictureNote.REDUCED,)


def test_samples_are_reproducible_and_in_order() -> None:
    """The same seed draws the same items; a limit over the size takes all."""
    items = list(range(1000))
    drawn = list(sampled(items, 50, 7))
    assert drawn == sampled(items, 50, 7) == sorted(drawn)
    assert len(set(drawn)) == 50
    assert drawn != sampled(items, 50, 8)
    assert sampled(items, 5000, 7) == items

"""The items that predictions are judged on."""

from __future__ import annotations

from modelzoo.validity.items import builtin_items, sampled


def test_builtin_items_are_crops_of_the_photograph() -> None:
    """They are read when they are needed, and have no class."""
    items = builtin_items(3, 0, 0.5)
    assert [item.name for item in items] == ["crop_00", "crop_01", "crop_02"]
    assert all(item.label is None and item.image_id is None for item in items)
    assert items[0].read().size == items[0].read().image.size


def test_samples_are_reproducible_and_in_order() -> None:
    """The same seed draws the same items; a limit over the size takes all."""
    items = list(range(1000))
    drawn = sampled(items, 50, 7)
    assert drawn == sampled(items, 50, 7) == sorted(drawn)
    assert len(set(drawn)) == 50
    assert drawn != sampled(items, 50, 8)
    assert sampled(items, 5000, 7) == items

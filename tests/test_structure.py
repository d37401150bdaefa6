"""The layout of the package."""

from __future__ import annotations

from places import ROOT

PACKAGE = ROOT / "modelzoo"


def test_few_modules_lie_directly_in_the_package_and_none_is_long() -> None:
    """At most 12 beside the rooms; a module over 400 lines has more than one purpose."""
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]) <= 12
    long = [str(path) for path in PACKAGE.rglob("*.py") if len(path.read_text(encoding="utf-8").splitlines()) > 400]
    assert long == []

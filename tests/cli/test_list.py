"""``modelzoo list``: what can be measured here."""

from __future__ import annotations

import re

import pytest
from calls import called

from modelzoo.cli import inventory
from modelzoo.engines import ENGINES
from modelzoo.workload.discovery import CHECKOUT, STANDARD_WORKLOADS, load_workload


def test_workloads_engines_and_packages_are_listed() -> None:
    """Each by the name that the command line takes, on stdout."""
    code, out, err = called("list")
    assert (code, err) == (0, "")
    first_words = {line.partition(" ")[0] for line in out.splitlines()}
    assert {*STANDARD_WORKLOADS, "examples/mlp", *ENGINES, *inventory.EXTRAS} <= first_words
    assert load_workload(CHECKOUT / "resnet50").title in out


def test_what_is_not_installed_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported to find out."""
    monkeypatch.setattr(inventory, "installed_version", lambda package: None)
    lines = [" ".join(line.split()) for line in called("list").out.splitlines()]
    assert "openvino not installed pip install openvino" in lines
    assert all(any(line.startswith(f"{name} not installed ") for line in lines) for name in inventory.EXTRAS)


def test_nobody_is_told_to_install_the_suite_from_an_index() -> None:
    """Under its name, PyPI has another project, which 'modelzoo[openvino]' installs where this one is not."""
    texts = [CHECKOUT / "README.md", *CHECKOUT.glob("docs/*.md"), *CHECKOUT.glob("modelzoo/**/*.py")]
    assert [path for path in texts if re.search(r"install ['\"]?modelzoo", path.read_text(encoding="utf-8"))] == []

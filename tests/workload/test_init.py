"""``modelzoo.workload`` offers what the author of a workload needs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

from places import ROOT

import modelzoo.workload


def test_the_public_names_are_those_of_the_page() -> None:
    """Removing or renaming one breaks workloads of other people; each is documented."""
    page = (ROOT / "docs" / "workload.md").read_text()
    listed = page.partition("## Names in `modelzoo.workload`")[2].partition("Judges (")[0]
    names = set(re.findall(r"`([A-Za-z_0-9]+)`", listed)) - {"inputs"}  # a field
    assert all(getattr(modelzoo.workload, name).__doc__ for name in names)
    given = {name for name, each in vars(modelzoo.workload).items() if name[0] != "_" and not inspect.ismodule(each)}
    assert given - {"annotations"} == names


def test_importing_it_does_not_import_torch() -> None:
    """Commands that only load a declaration, such as --help, stay fast."""
    code = "import sys, modelzoo.workload; sys.exit(bool({'torch', 'torchvision', 'PIL', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0

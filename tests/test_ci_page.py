"""docs/ci.md: the script that fails a build."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fake_runs import make, result_of
from places import ROOT

from modelzoo.results import store
from modelzoo.setting import Setting

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
HEAD = Setting(python="head/bin/python")
SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("slower", "message"), [(1.0, ""), (1.02, ""), (1.1, "slower: toy fp32 python=head/bin/python\n"), (0.5, "")]
)
def test_the_script_fails_a_build_that_is_slower(slower: float, message: str, tmp_path: Path) -> None:
    """By more than 3 %; 2 % are SLOWER, but pass."""
    wobble = [0.002 * math.sin(number) for number in range(8)]
    runs = [make([1.0] * 4, round=number) for number in range(8)]
    runs += [make([slower * math.exp(each)] * 4, setting=HEAD, round=i, group=1) for i, each in enumerate(wobble)]
    store.write(result_of(*runs), tmp_path / "result.json")
    (script,) = SCRIPT
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1 if message else 0, message)

"""Engines are named, found, and created without their frameworks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from modelzoo.engines import create_engine
from modelzoo.errors import UsageError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("onnx", "^no engine 'onnx': use one of torch, .*, jittor, or module:class$"),
        ("nowhere:Engine", "^engine 'nowhere:Engine' cannot be loaded: No module named 'nowhere'$"),
        ("json:Engine", "^engine 'json:Engine' cannot be loaded: .*no attribute 'Engine'$"),
    ],
)
def test_an_engine_that_does_not_exist_is_one_line(name: str, message: str) -> None:
    """Nothing is registered: an engine from elsewhere is named by its module and its class."""
    with pytest.raises(UsageError, match=message):
        create_engine(name)


def test_creating_engines_imports_no_framework() -> None:
    """An engine is asked for variables before its libraries may be loaded."""
    code = (
        "import sys\nfrom modelzoo.engines import ENGINES, create_engine\n"
        "from modelzoo.setting import ResolvedSetting\n"
        "found = {name: create_engine(name).variables(ResolvedSetting(threads=3)) for name in ENGINES}\n"
        "assert {each['OMP_NUM_THREADS'] for each in found.values()} == {'3'}\n"
        "assert not {'torch', 'numpy', 'onnxruntime', 'openvino', 'jittor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

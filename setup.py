"""What pyproject.toml cannot say: a wheel contains the workloads, which a checkout has at its top level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "bert", "llm")
FILES = ("workload.py", "README.md", "*.txt")
"""What a workload consists of. Its scripts, ``performance.py`` and ``validate.py``, are for a checkout."""


class BuildWithWorkloads(build_py):
    """Copies each workload to ``modelzoo/workloads``; an editable installation finds it where it is."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, target in self._copies():
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target), preserve_mode=False)

    def get_source_files(self) -> list[str]:
        """What a source distribution contains."""
        return [*super().get_source_files(), *(str(source) for source, _ in self._copies())]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(str(target) for _, target in self._copies())]

    def _copies(self) -> Iterator[tuple[Path, Path]]:
        into = Path(self.build_lib) / "modelzoo" / "workloads"
        for name in WORKLOADS:
            for pattern in FILES:
                for source in sorted(Path(name).glob(pattern)):
                    yield source, into / name / source.name


setup(cmdclass={"build_py": BuildWithWorkloads})

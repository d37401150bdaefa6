"""A workload with stages in a directory of its own, for tests that time it in worker processes."""

from __future__ import annotations

from pathlib import Path

from modelzoo.workload import Workload
from modelzoo.workload.discovery import load_workload

SOURCE = '''
"""Stages around a linear layer; the second one takes over half of the module's work."""

from modelzoo.workload import Inputs, ModelInput, Stage, Stages, Workload


def build(options):
    import torch

    return torch.nn.Sequential(torch.nn.Softplus(), torch.nn.Linear(64, 64))


def inputs(request):
    import torch

    return Inputs((torch.ones(request.batch, 64),), ("ones",) * request.batch)


def stages(request):
    import torch

    def without_softplus(module):
        module[0] = torch.nn.Identity()
        return module

    return Stages(
        source=[1.0] * request.batch,
        items=("ones",) * request.batch,
        before=(
            Stage("decode", lambda rows: torch.tensor(rows)[:, None].expand(-1, 64).clone()),
            Stage("soften", lambda rows: ModelInput((torch.nn.functional.softplus(rows),), len(rows)), "device"),
        ),
        after=(Stage("pick", lambda made: made.output.argmax(1).tolist()[: made.context]),),
        part=without_softplus,
    )


WORKLOAD = Workload("staged", "a layer with stages", "rows", build, inputs, stages=stages, batch=4)
'''


def staged_workload(folder: Path) -> Workload:
    """Write the workload to ``folder`` and load it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workload.py").write_text(SOURCE)
    return load_workload(folder)

"""Everything that a ``workload.py`` needs: the declaration, inputs, weights, and helpers for detectors.

Judges are imported from ``modelzoo.validity``. Importing this package does not import torch; docs/workload.md shows
how to write a workload.
"""

from __future__ import annotations

from modelzoo.errors import InputError, WeightsError
from modelzoo.records.workload import Count
from modelzoo.workload.checkpoints import Checkpoint
from modelzoo.workload.declaration import InputRequest, Inputs, ModelInput, ModelOutput, Option, Stage, Stages, Workload
from modelzoo.workload.detectors import (
    coco_categories,
    detector_counts,
    detector_inputs,
    detector_stages,
    detector_tensor,
)
from modelzoo.workload.generation import Forward, Generation
from modelzoo.workload.initialization import (
    calibrate_batch_norm,
    capture_outputs,
    count_candidates,
    skip_initialization,
    solve_background_bias,
    standardize_outputs,
)
from modelzoo.workload.inputs import photograph, picture_files, pictures, read_picture, read_text
from modelzoo.workload.state import load_state_dict, read_state_dict
from modelzoo.workload.weights import load_pretrained, read_tokenizer

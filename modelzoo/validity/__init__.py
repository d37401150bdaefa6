"""Judge a setting's predictions against fp32's, by task, with thresholds that have a source.

A workload declares its task: ``Workload.judge(options)`` returns a ``Classification``, ``Detection``,
``Answers`` or ``LanguageModeling``, or a task of its own, such as a ``ScoredTask``.
``judging`` runs two ``Predictor``s over a data set and returns a ``Validity``. Judging writes no files: what
explains a judgement is handed to a callback as an ``Exhibit``. Importing this package imports neither torch nor
``judging``, so that who only declares or times a workload does not wait for them.
"""

from __future__ import annotations

from modelzoo.records.validity import Validity, ValidityRequest, ValidityVerdict
from modelzoo.validity.answers import Answers, qa_arguments
from modelzoo.validity.classification import Classification
from modelzoo.validity.detection import Detection, listed
from modelzoo.validity.language import LanguageModeling
from modelzoo.validity.picture_sets import sampled, wnids
from modelzoo.validity.squad import Question, Windows, best_span, builtin_passages, builtin_questions, paragraph_offsets
from modelzoo.validity.task import Predictor, PreparedItem, ScoredTask, Task, TaskContext, stacked

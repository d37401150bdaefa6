"""Statistics of timing samples: pure functions of plain numbers. Times are in seconds.

Two properties of timing samples decide which methods are valid. Neighbouring samples of a process are correlated, so
an interval that treats samples as independent is too narrow. And processes differ from each other by more than the
samples within one, so the unit of an interval or a comparison is the process.
"""

from modelzoo.stats.comparison import (
    EQUIVALENCE,
    LARGEST_P,
    SAME_WITHIN,
    VERDICT_CONFIDENCE,
    Comparison,
    Corrected,
    Doubt,
    Outcome,
    Outlook,
    Verdict,
    compare,
    corrected,
    holm,
    judge,
    ratio_interval,
    ratio_test,
    verdicts,
)
from modelzoo.stats.control import USE_FROM, Control, Sums, adjusted, fit_control, sums
from modelzoo.stats.design import (
    Components,
    Costs,
    components,
    detectable,
    pooled,
    processes_needed,
    rounds_to_tell,
    seconds_per_process,
)
from modelzoo.stats.distribution import student_t
from modelzoo.stats.intervals import (
    CONFIDENCE,
    Interval,
    geometric_mean,
    level_interval,
    odd_process,
    process_interval,
    scaled,
    setting_interval,
)
from modelzoo.stats.log_ratio import LogRatio, Variance, total
from modelzoo.stats.looks import Look, Looks, planned_looks, spending
from modelzoo.stats.samples import is_settled, outliers, percentile, percentiles

__all__ = [
    "CONFIDENCE",
    "EQUIVALENCE",
    "LARGEST_P",
    "SAME_WITHIN",
    "USE_FROM",
    "VERDICT_CONFIDENCE",
    "Comparison",
    "Components",
    "Control",
    "Corrected",
    "Costs",
    "Doubt",
    "Interval",
    "LogRatio",
    "Look",
    "Looks",
    "Outcome",
    "Outlook",
    "Sums",
    "Variance",
    "Verdict",
    "adjusted",
    "compare",
    "components",
    "corrected",
    "detectable",
    "fit_control",
    "geometric_mean",
    "holm",
    "is_settled",
    "judge",
    "level_interval",
    "odd_process",
    "outliers",
    "percentile",
    "percentiles",
    "planned_looks",
    "pooled",
    "process_interval",
    "processes_needed",
    "ratio_interval",
    "ratio_test",
    "rounds_to_tell",
    "scaled",
    "seconds_per_process",
    "setting_interval",
    "spending",
    "student_t",
    "sums",
    "total",
    "verdicts",
]

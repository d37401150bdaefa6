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
    Basis,
    Doubt,
    Outcome,
    Outlook,
    Ratio,
    Seen,
    Spread,
    Verdict,
    corrected,
    holm,
    ratio_of,
    ratio_test,
    verdicts,
)
from modelzoo.stats.design import (
    Components,
    Looks,
    components,
    planned_looks,
    pooled,
    power,
    rounds_to_tell,
    seconds_per_process,
)
from modelzoo.stats.intervals import (
    CONFIDENCE,
    Interval,
    LogRatio,
    Variance,
    geometric_mean,
    inverse,
    is_settled,
    level_interval,
    odd_process,
    outliers,
    percentile,
    percentiles,
    process_interval,
    scaled,
    setting_interval,
    student_t,
    total,
)

"""Statistics of timing samples: pure functions of plain numbers. Times are in seconds.

Two properties of timing samples decide which methods are valid. Neighbouring samples of a process are correlated, so
an interval that treats samples as independent is too narrow. And processes differ from each other by more than the
samples within one, so the unit of an interval or a comparison is the process.
"""

from modelzoo.stats.comparison import *
from modelzoo.stats.design import *
from modelzoo.stats.intervals import *

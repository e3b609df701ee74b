"""The paper's theory, checked by machine on finite CMDPs: docs/theory.md.

from lspc import theory

rows = theory.check(count=3000)
print(theory.checks_table(rows))
"""

from lspc.theory.checks import Row, check
from lspc.theory.output import (
    checks_table,
    run_checks,
    run_sample_complexity,
    save_checks,
    save_samples,
    slopes_table,
)
from lspc.theory.samples import SIZES, Samples, Slope, sample_complexity, slopes, vacuity

__all__ = [
    "SIZES",
    "Row",
    "Samples",
    "Slope",
    "check",
    "checks_table",
    "run_checks",
    "run_sample_complexity",
    "sample_complexity",
    "save_checks",
    "save_samples",
    "slopes",
    "slopes_table",
    "vacuity",
]

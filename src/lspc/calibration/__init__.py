"""Which eps for which budget, from logged data alone, and how sure that is."""

from lspc.calibration.choosing import Calibration, Choice
from lspc.calibration.pipeline import calibrate, calibrate_policy
from lspc.calibration.storage import FILE, GuardModels, load, load_guard_models, save, warn_of_other_rules

__all__ = [
    "FILE",
    "Calibration",
    "Choice",
    "GuardModels",
    "calibrate",
    "calibrate_policy",
    "load",
    "load_guard_models",
    "save",
    "warn_of_other_rules",
]

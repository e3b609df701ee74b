"""Which eps for which budget, from logged data alone, and how sure that is."""

from lspc.calibration.choosing import (
    FILE,
    JUDGES,
    LANDMARKS,
    Calibration,
    Choice,
    Evidence,
    calibrate,
    calibrate_policy,
    load,
    load_evidence,
    nearest_distance,
    save,
)

__all__ = [
    "FILE",
    "JUDGES",
    "LANDMARKS",
    "Calibration",
    "Choice",
    "Evidence",
    "calibrate",
    "calibrate_policy",
    "load",
    "load_evidence",
    "nearest_distance",
    "save",
]

"""The version, alone, so that anything can know it without importing anything."""

__version__ = "0.2.0"

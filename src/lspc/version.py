"""The version, alone, so that anything can know it without importing anything."""

__version__ = "0.1.0"

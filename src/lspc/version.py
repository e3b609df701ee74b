"""The version, alone, so that anything can know it without importing anything."""

__version__ = "0.3.0.dev0"

"""Figures and pages made from datasets and from the raw records of runs."""

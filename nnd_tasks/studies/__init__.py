"""Rates with length taken out (`adjust.py`), and synthetic errors (`stress/`)."""

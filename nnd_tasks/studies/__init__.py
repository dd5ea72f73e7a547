"""Synthetic errors (`stress/`)."""

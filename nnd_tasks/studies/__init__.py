"""Rates with length taken out (`adjust.py`), synthetic errors (`stress/`), and text metrics for them."""

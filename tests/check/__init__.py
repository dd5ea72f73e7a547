"""Tests of `nnd check`."""

"""Figures that several optional packages draw."""

"""Servers as models: every answer to lm-eval's clients is checked as it comes."""

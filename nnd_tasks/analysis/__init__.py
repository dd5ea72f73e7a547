"""From results to conclusions: tables of outcomes, comparisons, verification, curves and reports."""

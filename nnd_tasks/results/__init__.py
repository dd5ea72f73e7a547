"""From results to conclusions: tables of outcomes, comparisons, verification, trends and reports."""

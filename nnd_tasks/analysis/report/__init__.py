"""One self-contained HTML page about runs."""

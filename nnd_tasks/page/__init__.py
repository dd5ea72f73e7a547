"""Pages of HTML: a report's page, and tests to browse."""

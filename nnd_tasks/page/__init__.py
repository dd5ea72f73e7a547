"""Pages of HTML: a report's page, a site of many people's results, and tests to browse."""

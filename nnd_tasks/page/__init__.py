"""What `nnd report` writes: pages of HTML with tests to browse, and rates for the hub."""

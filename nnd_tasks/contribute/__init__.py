"""Sets that anyone makes out of a table of judged texts: ``nnd new``."""

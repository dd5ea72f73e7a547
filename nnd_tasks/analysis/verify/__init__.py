"""Does a score rank models as people do? The paper's verification."""

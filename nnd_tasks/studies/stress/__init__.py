"""Synthetic near-negatives: a gold text against the same text with one known error (He et al., ACL 2023)."""

"""Publish sets on the Hugging Face hub: their cards, what may go out, and the upload."""

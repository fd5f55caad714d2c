"""Reads: one key, and many at once from all who hold a part."""

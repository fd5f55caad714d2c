"""The check of any topology: every store, computed by a batch of the same rows and values."""

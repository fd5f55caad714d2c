"""Copies of topic partitions in the stores: filling them, and what each can answer."""

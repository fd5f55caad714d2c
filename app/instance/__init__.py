"""One instance: its parts put together."""

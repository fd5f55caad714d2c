"""Spark: the session and its JVM, source and sink, the checkpoint directory, a running query."""

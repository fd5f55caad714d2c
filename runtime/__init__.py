"""Runs any topology: Kafka to Spark to state stores to whoever asks. Knows none."""

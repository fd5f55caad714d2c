"""Kafka: how to connect, topics, ids, offsets, partitions."""

"""The video-game leaderboard of *Mastering Kafka Streams and ksqlDB*, chapter 4."""

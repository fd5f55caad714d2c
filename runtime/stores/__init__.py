"""State stores: what they are (`protocol`), in memory (`memory`), on disk (`rocksdb`), and where (`directory`)."""

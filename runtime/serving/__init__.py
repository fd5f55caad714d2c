"""What is served of the stores: the view and the queries on it."""

"""The /leaderboard routes."""

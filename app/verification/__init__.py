"""`leaderboard verify`: everything computed a second time from the topics, and compared with what is served."""

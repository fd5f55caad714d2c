"""The `leaderboard` program: settings, jars, the embedded broker, loading, wiring and the command line."""

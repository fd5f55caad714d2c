"""The leaderboard's own check: its boards, computed by code that shares no rule with the stream."""

"""Live updates: view to feed to readers, and a follower for what peers hold."""

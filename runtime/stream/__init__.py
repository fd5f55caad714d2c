"""The stream thread: states, generations, seeds, snapshots, dead letters."""

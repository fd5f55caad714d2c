"""Java: what is installed, the pinned jars, class data archives, the embedded broker."""

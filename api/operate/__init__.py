"""For operators: health, hosts, metrics, the page."""

"""The probes, by what they look at."""

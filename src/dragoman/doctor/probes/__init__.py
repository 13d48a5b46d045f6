"""The questions of the probes, and what is made of the answers."""

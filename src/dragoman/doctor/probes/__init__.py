"""The questions of the probes, and the functions that judge the answers."""

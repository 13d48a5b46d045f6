"""The reader of improvised calls: an offered name in the place of a name, and its arguments in any notation."""

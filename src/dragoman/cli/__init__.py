"""The command line: one module per command, and the modules that they share. `dragoman.cli.app` starts it."""

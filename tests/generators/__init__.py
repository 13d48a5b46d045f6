"""What `scripts/make-test-data` writes into `tests/data/`: one module for each kind of rows."""

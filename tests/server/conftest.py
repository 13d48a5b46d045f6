"""A Postgres server for the tests of gateways that share their limits."""

from __future__ import annotations

from tests.postgres import postgres as postgres

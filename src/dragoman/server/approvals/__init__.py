"""Approvals over HTTP: pages and an API where people see the calls that wait in a journal, and answer them."""

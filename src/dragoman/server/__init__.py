"""The gateway: a server between agent programs and models, which gives any endpoint working tool calls."""

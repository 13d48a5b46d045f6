"""dragoman inside other programs: tool parsers for inference servers, and transports for the clients of providers."""

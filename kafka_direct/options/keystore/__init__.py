"""Java's key stores, read where a client is built, because each host has its own copy."""

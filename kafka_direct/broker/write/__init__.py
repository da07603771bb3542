"""How records are written."""

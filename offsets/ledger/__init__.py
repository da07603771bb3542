"""Which batch a time means, and what has finished. Pure."""

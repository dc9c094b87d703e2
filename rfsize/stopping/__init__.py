"""Stop tables: when a row needs no more trees."""

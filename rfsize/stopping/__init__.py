"""Stop tables: when a row need not ask the remaining trees."""

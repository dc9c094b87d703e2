"""Stop tables: when a row can stop asking trees."""

"""Forests trained to their size, and the bagging fraction chosen."""

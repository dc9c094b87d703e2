"""Estimates, from votes or scores, of how far a forest of any size is from the infinite forest."""

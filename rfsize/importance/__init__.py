"""Permutation importances out of bag, and how many trees it takes until they hardly change with the seed."""

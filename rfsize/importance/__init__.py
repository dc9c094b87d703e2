"""Permutation importances out of bag, and how many trees bring their order to rest."""

"""Certify, on rows that a forest was not trained on, how often fewer trees change its answers."""

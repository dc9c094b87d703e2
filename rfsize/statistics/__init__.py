"""Estimates from the outputs of trees, as numbers: no text, pictures or pages."""

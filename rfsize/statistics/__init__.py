"""Estimates of how much forests of any size lose: numbers, without words and pictures."""

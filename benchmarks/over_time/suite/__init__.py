"""Benchmarks that asv times commit by commit."""

"""Compiled forests: predictions many times faster, and without the framework."""

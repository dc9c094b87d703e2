"""Compiled forests: many times faster predictions without the framework."""

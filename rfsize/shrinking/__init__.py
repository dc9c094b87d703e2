"""Shrink a forest further than T*: choose trees and refit their leaves, so that predictions hardly change."""

"""Walks down trees without their framework: the shared part of counting votes and predicting."""

"""Forests shrunk further than T*: trees chosen, and their leaves refitted, to answer as the whole forest does."""

"""Rules of stopping, a file each: when a row need ask no more trees, and all that follows from it."""

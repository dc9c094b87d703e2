"""The interface between rfsize and a framework, and the search for a model's framework."""

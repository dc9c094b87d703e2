"""Trained models of any framework, as rfsize reads them."""

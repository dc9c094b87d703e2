"""One module per framework; each is imported only when a model of that framework is given."""

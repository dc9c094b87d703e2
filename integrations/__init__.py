"""One package per framework, imported only for a model of that framework; installed as ``rfsize.integrations``."""

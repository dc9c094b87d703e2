"""Stopping rules, one file each. Importing the package imports every file, so that each rule registers itself."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

"""Which packages there are; all else stands in pyproject.toml.

`integrations/` lies beside `rfsize/` and is installed inside of it, which is more than pyproject.toml can say of
packages that are found.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=["rfsize", "rfsize.*"]),
        *(f"rfsize.{name}" for name in find_packages(include=["integrations", "integrations.*"])),
    ],
    package_dir={"rfsize": "rfsize", "rfsize.integrations": "integrations"},
)

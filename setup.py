"""
All metadata is in `pyproject.toml`. What is here compiles the native kernels into the package.

They are for all levels of the CPU. Without a compiler, the package has none, and they are compiled at first use.
"""

import os
import sys

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from returnn.native.build import prebuild
from returnn.util.errors import UserError
from returnn.util.native_code_compiler import get_cpp_bin

PREBUILT = os.path.join("returnn", "native", "prebuilt")


def has_compiler() -> bool:
    """:return: whether the package has kernels"""
    try:
        get_cpp_bin()
    except UserError as exc:
        print(f"The package has no native kernels: {exc}", file=sys.stderr)
        return False
    return True


class DistributionWithKernels(Distribution):
    """A package for this kind of machine, if there are kernels in it."""

    def has_ext_modules(self) -> bool:
        """See above."""
        return has_compiler()


class BuildWithKernels(build_py):
    """Copies the modules, and adds the kernels."""

    def run(self) -> None:
        """Does it."""
        super().run()
        if not self.editable_mode and has_compiler():
            prebuild(os.path.join(self.build_lib, PREBUILT))


class WheelForAnyPython(bdist_wheel):
    """Kernels need no certain version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        """:return: for the name of the file"""
        return "py3", "none", super().get_tag()[2]


setup(distclass=DistributionWithKernels, cmdclass={"build_py": BuildWithKernels, "bdist_wheel": WheelForAnyPython})

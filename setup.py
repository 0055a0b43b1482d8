"""The parts of the build that setup.cfg cannot say: the launcher, and a build folder without stale files."""

import shutil

from setuptools import Extension, setup
from setuptools.command.build_py import build_py


class FreshBuild(build_py):
    """Empties the build folder first: setuptools would pack what earlier builds left there."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(
    cmdclass={"build_py": FreshBuild},
    ext_modules=[
        Extension(
            "aotarray.runtime._launcher",
            ["aotarray/runtime/launcher.c"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-O2", "-std=gnu11", "-fvisibility=hidden"],
            libraries=["m", "pthread"],
            py_limited_api=True,
        )
    ],
)

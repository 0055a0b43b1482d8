"""The parts of the build that setup.cfg cannot say: the launcher, and a build folder without stale files."""

import shutil
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

#: Free-threading builds of CPython have no limited API; launcher.c decides the same way.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


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
            extra_compile_args=["-O2", "-std=gnu11", "-fvisibility=hidden"],
            libraries=["m", "pthread"],
            py_limited_api=LIMITED,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)

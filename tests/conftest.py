"""What all tests share: the installed package, a fixed working environment."""

import os

# Processes that tests start import the installed package, not the folder aotarray/ of the working directory,
# which has no compiled launcher.
os.environ["PYTHONSAFEPATH"] = "1"


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/ from what is generated now")

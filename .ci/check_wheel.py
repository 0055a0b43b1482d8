"""Compare a wheel's file list with the tracked files: nothing stale, nothing missing.

Usage: check_wheel.py WHEEL REPOSITORY
"""

import subprocess
import sys
import zipfile
from pathlib import PurePosixPath

EXTENSION = "aotarray/runtime/_launcher.abi3.so"
SHIPPED = {".py", ".pyi", ".c", ".h", ".typed"}
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt", "licenses/LICENSE"}


def expected(repository: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "aotarray", "cli"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.split()
    shipped = [path for path in listed if PurePosixPath(path).suffix in SHIPPED or path.endswith("py.typed")]
    return {f"aotarray/{path}" if path.startswith("cli/") else path for path in shipped} | {EXTENSION}


def main(wheel: str, repository: str) -> int:
    if "-cp311-abi3-" not in wheel:
        print(f"{wheel}: expected the tag cp311-abi3")
        return 1
    found, metadata = set(), set()
    for name in zipfile.ZipFile(wheel).namelist():
        top, _, rest = name.partition("/")
        if top.endswith(".dist-info"):
            metadata.add(rest)
        else:
            found.add(name)
    wanted = expected(repository)
    problems = [f"unexpected: {name}" for name in sorted(found - wanted)]
    problems += [f"missing: {name}" for name in sorted(wanted - found)]
    problems += [f"metadata: {name}" for name in sorted(metadata ^ METADATA)]
    print("\n".join(problems) or f"wheel: {len(found)} files, as tracked")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

"""Writes a wheel that carries the binary: python3 wheel.py BINARY VERSION GLIBC FOLDER.

A wheel is a zip archive. This one has no Python code: the binary is a script of the package, which
installers put on the PATH. Its members have one time and one order, so that equal inputs give equal
bytes.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

binary, version, glibc, folder = sys.argv[1:]
root = Path(__file__).resolve().parent.parent
major, minor = glibc.split(".")[:2]
tag = f"py3-none-manylinux_{major}_{minor}_x86_64"
info = f"tidegate-{version}.dist-info"
moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]

METADATA = f"""\
Metadata-Version: 2.4
Name: tidegate
Version: {version}
Summary: Durable workflow engine with exact flow control: one binary with an HTTP API, a command line and a console
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""

members = {
    f"tidegate-{version}.data/scripts/tidegate": Path(binary).read_bytes(),
    f"{info}/METADATA": (METADATA + (root / "README.md").read_text()).encode(),
    f"{info}/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: tidegate packaging\n"
        f"Root-Is-Purelib: false\nTag: {tag}\n"
    ).encode(),
    f"{info}/licenses/LICENSE-APACHE": (root / "LICENSE-APACHE").read_bytes(),
    f"{info}/licenses/LICENSE-MIT": (root / "LICENSE-MIT").read_bytes(),
}


def record_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


lines = [record_line(name, content) for name, content in members.items()]
members[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()

with zipfile.ZipFile(Path(folder) / f"tidegate-{version}-{tag}.whl", "w") as wheel:
    for name, content in members.items():
        entry = zipfile.ZipInfo(name, moment)
        entry.compress_type = zipfile.ZIP_DEFLATED
        executable = "scripts/" in name
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        wheel.writestr(entry, content, compresslevel=9)

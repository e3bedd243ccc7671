"""Serves a folder of packages as an npm registry and as a Python package index, on loopback.

python3 registry.py FOLDER: prints its URL. Packages that the folder does not have are answered with
404, so a test that installs from here proves that nothing else is needed.
"""

import base64
import hashlib
import io
import json
import re
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

folder = Path(sys.argv[1]).resolve()


def manifest(archive):
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as tar:
        return json.load(tar.extractfile("package/package.json"))


def packument(name, base):
    """The npm registry's document of one package; None if the folder does not have it."""
    for archive in folder.glob("*.tgz"):
        package = manifest(archive)
        if package["name"] != name:
            continue
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        package["dist"] = {
            "tarball": f"{base}/files/{archive.name}",
            "integrity": f"sha512-{digest}",
        }
        version = package["version"]
        return {"name": name, "dist-tags": {"latest": version}, "versions": {version: package}}
    return None


def index_page(project):
    """The simple index page of one Python project; None if the folder does not have it."""
    wheels = [wheel for wheel in folder.glob("*.whl") if wheel.name.split("-")[0] == project]
    if not wheels:
        return None
    link = '<a href="/files/{0}#sha256={1}">{0}</a>'
    digest = lambda wheel: hashlib.sha256(wheel.read_bytes()).hexdigest()
    return "<!doctype html>" + "".join(link.format(it.name, digest(it)) for it in wheels)


class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        path = unquote(self.path.split("?")[0])
        base = f"http://{self.headers['Host']}"
        simple = re.fullmatch(r"/simple/([^/]+)/?", path)
        if path.startswith("/files/") and (file := folder / Path(path).name).is_file():
            return self.answer(200, "application/octet-stream", file.read_bytes())
        if simple and (page := index_page(simple[1])):
            return self.answer(200, "text/html", page.encode())
        if document := packument(path.lstrip("/"), base):
            return self.answer(200, "application/json", json.dumps(document).encode())
        return self.answer(404, "application/json", b'{"error": "not found"}')

    def do_HEAD(self):
        self.do_GET()

    def answer(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()

"""A service that the server calls: `/stream` answers in chunks, every other path echoes.

`POST /gate/shut` lets calls wait until `POST /gate/open`.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OPEN = threading.Event()
OPEN.set()


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/gate/shut":
            OPEN.clear()
        elif self.path == "/gate/open":
            OPEN.set()
        else:
            OPEN.wait(timeout=60)
        if self.path == "/stream":
            self.answer("text/event-stream", 'data: "one"\n\ndata: "two"\n\nevent: output\ndata: "whole"\n\n')
        else:
            asked = json.loads(body) if body else {}
            self.answer("application/json", json.dumps({"echo": asked.get("input"), "user": asked.get("user")}))

    def answer(self, kind, text):
        data = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()

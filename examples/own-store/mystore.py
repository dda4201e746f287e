"""A store for blobwise: one file per blob, over HTTP. With --null it keeps lengths only, to show what the protocol costs."""

import argparse
import ctypes
import os
import socketserver
from http.server import BaseHTTPRequestHandler

options = argparse.ArgumentParser()
options.add_argument("--dir", default=".")
options.add_argument("--socket", required=True)
options.add_argument("--fsync", action="store_true", help="flush every write before answering")
options.add_argument("--null", action="store_true")
options = options.parse_args()
lengths = {}


def flush(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class Blobs(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", length=None):
        head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(body) if length is None else length}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def path_of(self):
        return os.path.join(options.dir, os.path.basename(self.path))

    def do_GET(self):
        if options.null:
            blob = bytes(lengths[self.path]) if self.path in lengths else None
        else:
            try:
                with open(self.path_of(), "rb") as file:
                    blob = file.read()
            except FileNotFoundError:
                blob = None
        if blob is None:
            return self.answer(404)
        if self.command == "HEAD":
            return self.answer(200, length=len(blob))
        if "Range" not in self.headers:
            return self.answer(200, blob)
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        self.answer(206, blob[first : last + 1]) if first < len(blob) else self.answer(416)

    do_HEAD = do_GET

    def do_PUT(self):
        blob = self.rfile.read(int(self.headers["Content-Length"]))
        if options.null:
            lengths[self.path] = len(blob)
            return self.answer(201)
        draft = f"{self.path_of()}.{id(self)}"
        with open(draft, "wb") as file:
            file.write(blob)
            file.flush()
            if options.fsync:
                os.fsync(file.fileno())
        os.rename(draft, self.path_of())
        if options.fsync:
            flush(options.dir)
        self.answer(201)

    def do_DELETE(self):
        lengths.pop(self.path, None)
        if os.path.exists(self.path_of()):
            os.remove(self.path_of())
            if options.fsync:
                flush(options.dir)
        self.answer(204)

    def do_POST(self):
        descriptor = os.open(options.dir, os.O_RDONLY)
        failed = ctypes.CDLL(None).syncfs(descriptor)
        os.close(descriptor)
        self.answer(500 if failed else 200)


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


Server(options.socket, Blobs).serve_forever()

# SPDX-License-Identifier: MIT
"""An embedding server that computes nothing, for tests of `stoker bench serve`.

    stub_server.py PORT-FILE [tei|openai|infinity|mute] [--token T] [--fail EVERY] [--drop EVERY]

Writes its port to PORT-FILE once it listens.
"""
import http.server
import itertools
import json
import os
import sys

kind = sys.argv[2] if len(sys.argv) > 2 else "tei"
token = sys.argv[sys.argv.index("--token") + 1] if "--token" in sys.argv else None
fail = int(sys.argv[sys.argv.index("--fail") + 1]) if "--fail" in sys.argv else 0
drop = int(sys.argv[sys.argv.index("--drop") + 1]) if "--drop" in sys.argv else 0
asked = itertools.count(1)  # one step, whichever thread takes it


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def reply(self, status, doc, **fields):
        body = json.dumps(doc).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for k, v in fields.items():
            self.send_header(k.replace("_", "-"), str(v))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        tells = {("tei", "/info"): {"model_id": "stub"},
                 ("openai", "/v1/models"): {"data": [{"id": "stub", "owned_by": "me"}]},
                 ("infinity", "/models"): {"data": [{"id": "stub", "owned_by": "infinity"}]}}
        doc = tells.get((kind, self.path))
        self.reply(200 if doc else 404, doc or {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turn = next(asked)
        if token and self.headers.get("Authorization") != "Bearer " + token:
            return self.reply(401, {"error": "who are you?"})
        if drop and turn % drop == 0:
            self.close_connection = True
            return None
        if fail and turn % fail == 0:
            return self.reply(429, {"error": "busy"})
        if self.path == "/embed":
            return self.reply(200, [[0.5, 0.25]] * len(body["inputs"]), x_compute_tokens=5 * len(body["inputs"]))
        if self.path == "/rerank":
            return self.reply(200, [{"index": i, "score": 0.5} for i in range(len(body["texts"]))])
        if self.path in ("/v1/embeddings", "/embeddings") and body.get("model") == "stub":
            return self.reply(200, {"data": [{"index": i, "embedding": [1, 2, 3]} for i in range(len(body["input"]))],
                                    "usage": {"prompt_tokens": 9, "total_tokens": 9}})
        self.reply(404, {"error": "no such route"})


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512


server = Server(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()

# SPDX-License-Identifier: MIT
"""An authority of our own with its certificates, and HTTP servers with or without TLS, for tests.
Only the standard library, and the program openssl."""
import datetime
import http.server
import pathlib
import shutil
import ssl
import subprocess
import threading


def openssl(*args):
    p = subprocess.run(["openssl", *args], capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr)


def here():
    return shutil.which("openssl") is not None


def authority(name):
    """NAME.pem signs certificates."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-addext", "basicConstraints=critical,CA:TRUE")


def certificate(name, by, san="IP:127.0.0.1,DNS:localhost", days=2):
    """NAME.crt and NAME.key, signed by the authority `by`; days below 0: it has ended."""
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
            "-out", f"{name}.csr")
    pathlib.Path(f"{name}.ext").write_text(f"subjectAltName={san}\nbasicConstraints=CA:FALSE\n")
    if days > 0:
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-days", str(days),
                "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        return
    # `openssl x509` of OpenSSL 3.0 cannot write a date that is over, `openssl ca` can
    end = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=-days)
    start = end - datetime.timedelta(days=10)
    pathlib.Path("index.txt").write_text("")
    pathlib.Path("serial.txt").write_text("1000\n")
    pathlib.Path("ca.cnf").write_text("[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nserial=serial.txt\nnew_certs_dir=.\npolicy=any\n[any]\ncommonName=supplied\n")
    openssl("ca", "-batch", "-config", "ca.cnf", "-md", "sha256", "-cert", f"{by}.pem", "-keyfile", f"{by}.key", "-in", f"{name}.csr",
            "-out", f"{name}.crt", "-notext", "-extfile", f"{name}.ext", "-startdate", start.strftime("%Y%m%d%H%M%SZ"),
            "-enddate", end.strftime("%Y%m%d%H%M%SZ"))


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what the server's `answer(handler)` says, and notes who asked for what."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self.rfile.read(length) if length else b""
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, self.body))
        self.server.answer(self)

    do_POST = do_HEAD = do_GET

    def reply(self, status, body=b"", headers=None, length=None):
        self.send_response(status)
        for k, v in (headers or {}).items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Web(http.server.ThreadingHTTPServer):
    """A server on a free port; `crt` and `key` make it https."""
    daemon_threads = True

    def __init__(self, answer, crt=None, key=None, handler=Handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.answer, self.asked, self.port = answer, [], self.server_address[1]
        self.url = f"{'https' if crt else 'http'}://127.0.0.1:{self.port}"
        if crt:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(crt, key)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # clients that leave, or that do not trust us

#!/usr/bin/env python3
"""Stands before an object store of the tests and does what those never do: it refuses credentials that ran out, and loses answers.

  gate.py --to P [--tokens FILE] [--faults SEED]     prints "listening on 127.0.0.1:Q"

  --tokens FILE   S3 session tokens that are valid now, one a line; the file is read at each request. Any other is refused as S3
                  does it (400 ExpiredToken), and the line "refused" is printed
  --faults SEED   of requests that write, about one in eight is served and its answer lost (the connection is closed), and about
                  one in eight is not served and answered with 503

It prints how many faults of each kind and how many requests there were when its standard input ends. Python's standard library alone.
"""
import argparse, collections, http.client, http.server, random, sys, threading

arguments = argparse.ArgumentParser()
arguments.add_argument('--to', type=int, required=True)
arguments.add_argument('--tokens')
arguments.add_argument('--faults', type=int)
settings = arguments.parse_args()
dice, count, asked, lock = random.Random(settings.faults), {'lost': 0, 'busy': 0}, collections.Counter(), threading.Lock()
ERROR = '<?xml version="1.0"?><Error><Code>{}</Code><Message>{}</Message></Error>'
HOP = {'connection', 'transfer-encoding', 'content-length', 'keep-alive'}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1                          # an answer is one packet, or acknowledgements are waited for
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def answer(self, status, headers, body, length=None):
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header('Content-Length', length if length is not None else str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code, words):
        self.answer(status, [('Content-Type', 'application/xml')], ERROR.format(code, words).encode())

    def serve(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if settings.tokens:
            with open(settings.tokens) as valid:
                if self.headers.get('x-amz-security-token') not in valid.read().split('\n'):
                    print('refused', flush=True)
                    return self.refuse(400, 'ExpiredToken', 'The provided token has expired.')
        with lock:
            asked['LIST' if self.command == 'GET' and 'prefix=' in self.path else self.command] += 1
        fault = None
        if settings.faults is not None and self.command in ('PUT', 'POST', 'DELETE'):
            with lock:
                fault = {0: 'lost', 1: 'busy'}.get(dice.randrange(8))
                if fault:
                    count[fault] += 1
        if fault == 'busy':
            return self.refuse(503, 'SlowDown', 'Please reduce your request rate.')
        upstream = http.client.HTTPConnection('127.0.0.1', settings.to, timeout=60)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ('connection', 'transfer-encoding'):
                    upstream.putheader(name, value)
            upstream.endheaders(body)
            response = upstream.getresponse()
            content = response.read()
        finally:
            upstream.close()
        if fault == 'lost':
            self.close_connection = True
            return
        length = response.getheader('Content-Length') if self.command == 'HEAD' else None
        self.answer(response.status, response.getheaders(), content, length)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


server = Server(('127.0.0.1', 0), Handler)
print(f'listening on 127.0.0.1:{server.server_port}', flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
print(f'{count["lost"]} answers lost, {count["busy"]} requests refused', flush=True)
print(', '.join(f'{number} {kind}' for kind, number in sorted(asked.items())), flush=True)

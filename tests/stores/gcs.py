#!/usr/bin/env python3
"""A Google Cloud Storage of one process, in memory: what the object_store crate sends to it, which is the XML API.

  gcs.py --port P [--careless]       prints "listening on 127.0.0.1:P"

It keeps the promise that the emulators in the registries do not: a write under a condition on the generation is looked at and
done in one step. With --careless it ignores conditions, as they do. It checks no token. Python's
standard library alone.
"""
import argparse, hashlib, http.server, threading, time, urllib.parse, uuid
from email.utils import formatdate
from xml.sax.saxutils import escape

LOCK = threading.Lock()
BUCKETS = {}                # bucket -> key -> (bytes, generation, time)
UPLOADS = {}                # upload id -> {part number: bytes}
GENERATION = [int(time.time() * 1e6)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1                          # an answer is one packet, or acknowledgements are waited for
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), str(value))
        if self.command == 'HEAD':
            self.end_headers()
            return
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, code):
        self.answer(status, f'<?xml version="1.0"?><Error><Code>{code}</Code></Error>'.encode())

    def parse(self):
        path, _, query = self.path.partition('?')
        bucket, _, key = urllib.parse.unquote(path).lstrip('/').partition('/')
        length = int(self.headers.get('Content-Length') or 0)
        return bucket, key, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), self.rfile.read(length)

    def put_if(self, bucket, key, body):
        """The generation of the new object; None when the condition does not hold. The lock is held."""
        wanted = self.headers.get('x-goog-if-generation-match')
        there = BUCKETS[bucket].get(key)
        if wanted is not None and not settings.careless and int(wanted) != (there[1] if there else 0):
            return None
        GENERATION[0] += 1
        BUCKETS[bucket][key] = (body, GENERATION[0], time.time())
        return GENERATION[0]

    def stored(self, generation, body=b''):
        if generation is None:
            return self.refuse(412, 'PreconditionFailed')
        self.answer(200, body, ETag=f'"{generation}"', x_goog_generation=generation)

    def do_PUT(self):
        bucket, key, query, body = self.parse()
        with LOCK:
            if not key:
                BUCKETS.setdefault(bucket, {})
                return self.answer(200)
            if bucket not in BUCKETS:
                return self.refuse(404, 'NoSuchBucket')
            if 'uploadId' in query:
                if query['uploadId'] not in UPLOADS:
                    return self.refuse(404, 'NoSuchUpload')
                UPLOADS[query['uploadId']][int(query['partNumber'])] = body
                return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
            self.stored(self.put_if(bucket, key, body))

    def do_POST(self):
        bucket, key, query, body = self.parse()
        with LOCK:
            if 'uploads' in query:
                name = uuid.uuid4().hex
                UPLOADS[name] = {}
                text = f'<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId></InitiateMultipartUploadResult>'
                return self.answer(200, text.encode())
            parts = UPLOADS.pop(query.get('uploadId'), None)
            if parts is None:
                return self.refuse(404, 'NoSuchUpload')
            generation = self.put_if(bucket, key, b''.join(parts[number] for number in sorted(parts)))
            self.stored(generation, f'<CompleteMultipartUploadResult><ETag>"{generation}"</ETag></CompleteMultipartUploadResult>'.encode())

    def do_GET(self):
        bucket, key, query, _ = self.parse()
        with LOCK:
            there = BUCKETS.get(bucket)
            if there is None:
                return self.refuse(404, 'NoSuchBucket')
            if not key:
                return self.list(there, query)
            found = there.get(key)
        if found is None:
            return self.refuse(404, 'NoSuchKey')
        body, generation, at = found
        headers = dict(ETag=f'"{generation}"', x_goog_generation=generation, Last_Modified=formatdate(at, usegmt=True))
        wanted = self.headers.get('Range', '')
        if wanted.startswith('bytes='):
            first, _, last = wanted[6:].partition('-')
            begin = int(first) if first else max(0, len(body) - int(last))
            end = min(int(last), len(body) - 1) if first and last else len(body) - 1
            headers['Content_Range'] = f'bytes {begin}-{end}/{len(body)}'
            return self.answer(206, body[begin:end + 1], **headers)
        if self.command == 'HEAD':
            headers['Content_Length'] = len(body)
        self.answer(200, body, **headers)

    do_HEAD = do_GET

    def list(self, there, query):
        prefix, delimiter, after = query.get('prefix', ''), query.get('delimiter', ''), query.get('start-after', '')
        objects, prefixes = [], set()
        for key in sorted(key for key in there if key.startswith(prefix) and key > after):
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                prefixes.add(prefix + rest.split(delimiter)[0] + delimiter)
                continue
            body, generation, at = there[key]
            stamp = time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(at))
            objects.append(f'<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>"{generation}"</ETag><LastModified>{stamp}</LastModified></Contents>')
        text = '<?xml version="1.0"?><ListBucketResult>' + ''.join(objects)
        text += ''.join(f'<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>' for name in sorted(prefixes))
        self.answer(200, (text + '<IsTruncated>false</IsTruncated></ListBucketResult>').encode())

    def do_DELETE(self):
        bucket, key, query, _ = self.parse()
        with LOCK:
            if 'uploadId' in query:
                return self.answer(204 if UPLOADS.pop(query['uploadId'], None) is not None else 404)
            if BUCKETS.get(bucket, {}).pop(key, None) is None:
                return self.refuse(404, 'NoSuchKey')
        self.answer(204)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


arguments = argparse.ArgumentParser()
arguments.add_argument('--port', type=int, default=0)
arguments.add_argument('--careless', action='store_true')
settings = arguments.parse_args()
server = Server(('127.0.0.1', settings.port), Handler)
print(f'listening on 127.0.0.1:{server.server_port}', flush=True)
server.serve_forever()

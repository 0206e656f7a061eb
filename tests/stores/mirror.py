#!/usr/bin/env python3
"""Copies a bucket of an object store of the tests into a folder, or makes one. Plain HTTP: nothing of sluice is in between.

  mirror.py --kind s3|azure|gcs-xml --port P --bucket B make
  mirror.py --kind s3|azure|gcs-xml --port P --bucket B copy DIR
"""
import argparse, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from torture import Azure, GcsXml, S3

arguments = argparse.ArgumentParser()
for name in ('--kind', '--port', '--bucket'):
    arguments.add_argument(name, required=True)
arguments.add_argument('what', choices=['make', 'copy'])
arguments.add_argument('dir', nargs='?')
a = arguments.parse_args()
store = {'s3': S3, 'azure': Azure, 'gcs-xml': GcsXml}[a.kind]('127.0.0.1', int(a.port))
store.b = a.bucket
if a.what == 'make':
    status = store.h('PUT', f'/{a.bucket}', store.hd())[0] if a.kind == 'gcs-xml' else store.mkbucket()
    sys.exit(0 if status in (200, 201, 409) else f'cannot make {a.bucket}: {status}')
# Logs first: what they name is there before them.
keys = sorted(store.list(''), key=lambda key: ('_delta_log' not in key, key))
for key in keys:
    status, content, _ = store.get(key)
    if status != 200:
        continue                # removed since it was listed
    path = os.path.join(a.dir, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(content)

#!/usr/bin/env python3
"""Torture test of conditional writes on a local object-store server (stdlib only).

  torture.py --kind s3|azure|gcs-xml|gcs-json --port P [--checks 1,2,3,4,5,6,8,rps] [--rounds 300] [--cas 2000]
  torture.py ... --crash --start 'CMD'      check 7: starts CMD, kill -9 in the middle, starts it again, audits
Prints one JSON line per check. Races use last-byte sync: every client sends all but the last byte
of its request body, meets the others at a barrier, then sends the last byte.
"""
import argparse, base64, hashlib, hmac, http.client, json, os, re, shlex, signal, socket, subprocess
import sys, threading, time, urllib.parse, uuid
from email.utils import formatdate
from collections import Counter

q = lambda s, safe='-_.~/': urllib.parse.quote(s, safe=safe)
tl = threading.local()

class Http:
    def __init__(s, host, port): s.host, s.port = host, port
    def conn(s):
        c = getattr(tl, 'c', None)
        if c is not None and time.time() - tl.t > 2: c.close(); c = None      # the server may have closed it: Node does after 5 s
        tl.t = time.time()
        if c is None:
            c = tl.c = http.client.HTTPConnection(s.host, s.port, timeout=60)
        return c
    def __call__(s, method, path, headers=None, body=b'', sync=None):
        """sync: a barrier to wait at before the last byte is sent"""
        c = s.conn(); arrived = False
        try:
            c.putrequest(method, path, skip_accept_encoding=True)
            h = dict(headers or {})
            if method in ('PUT', 'POST'): h['Content-Length'] = str(len(body))
            for k, v in h.items(): c.putheader(k, v)
            c.endheaders()
            if sync is not None:
                if body:
                    c.send(body[:-1])
                arrived = True; sync.wait()
                if body: c.send(body[-1:])
            elif body: c.send(body)
            r = c.getresponse(); d = r.read()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, d
        except Exception as e:
            if sync is not None and not arrived:
                try: sync.wait()
                except Exception: pass
            try: c.close()
            finally: tl.c = None
            return 0, {'error': repr(e)}, repr(e).encode()

class S3:
    kind = 's3'; multipart = True
    def __init__(s, host, port):
        s.h = Http(host, port); s.b = 'torture'
    def hd(s, **kw):
        d = {'Authorization': 'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=' + '0'*64,
             'x-amz-date': time.strftime('%Y%m%dT%H%M%SZ', time.gmtime()), 'x-amz-content-sha256': 'UNSIGNED-PAYLOAD'}
        d.update({k: v for k, v in kw.items() if v is not None}); return d
    def cond(s, if_none, if_match):
        d = {}
        if if_none: d['If-None-Match'] = '*'
        if if_match: d['If-Match'] = if_match
        return d
    def p(s, k): return f'/{s.b}/{q(k)}'
    def mkbucket(s): return s.h('PUT', f'/{s.b}', s.hd())[0]
    def put(s, k, body, if_none=False, if_match=None, sync=None):
        st, h, d = s.h('PUT', s.p(k), s.hd(**s.cond(if_none, if_match)), body, sync)
        return st, h.get('etag'), d
    def get(s, k):
        st, h, d = s.h('GET', s.p(k), s.hd()); return st, d, h.get('etag')
    def delete(s, k, if_match=None): return s.h('DELETE', s.p(k), s.hd(**s.cond(False, if_match)))[0]
    def list(s, prefix):
        out, tok = [], None
        while True:
            u = f'/{s.b}?list-type=2&prefix={q(prefix,"")}' + (f'&continuation-token={q(tok,"")}' if tok else '')
            st, h, d = s.h('GET', u, s.hd())
            if st != 200: return None
            t = d.decode(); out += [urllib.parse.unquote(x) for x in re.findall(r'<Key>([^<]*)</Key>', t)]
            m = re.search(r'<NextContinuationToken>([^<]+)<', t)
            if not m: return out
            tok = m.group(1)
    def mp_begin(s, k, body):
        st, h, d = s.h('POST', s.p(k) + '?uploads=', s.hd())
        m = re.search(rb'<UploadId>([^<]+)<', d)
        if st != 200 or not m: return None
        uid = m.group(1).decode()
        st, h, d = s.h('PUT', s.p(k) + f'?partNumber=1&uploadId={q(uid,"")}', s.hd(), body)
        return (uid, h.get('etag')) if st == 200 else None
    def mp_complete(s, k, ctx, if_none=False, if_match=None, sync=None):
        x = f'<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Part><PartNumber>1</PartNumber><ETag>{ctx[1]}</ETag></Part></CompleteMultipartUpload>'.encode()
        st, h, d = s.h('POST', s.p(k) + f'?uploadId={q(ctx[0],"")}', s.hd(**s.cond(if_none, if_match)), x, sync)
        if st == 200 and b'<Error>' in d: st = 412 if b'PreconditionFailed' in d else 500   # S3 may answer 200 + error
        return st, d

class Azure:
    kind = 'azure'; multipart = True
    acct = 'devstoreaccount1'
    key = base64.b64decode('Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==')
    def __init__(s, host, port): s.h = Http(host, port); s.b = 'torture'; s.ver = '2023-11-03'
    def req(s, m, path, query=None, headers=None, body=b'', sync=None):
        h = {k: v for k, v in (headers or {}).items() if v is not None}
        h['x-ms-date'] = formatdate(usegmt=True); h['x-ms-version'] = s.ver
        xs = ''.join(f'{k.lower()}:{v}\n' for k, v in sorted(h.items(), key=lambda t: t[0].lower()) if k.lower().startswith('x-ms-'))
        cr = f'/{s.acct}/{s.acct}{path}' + ''.join(f'\n{k}:{v}' for k, v in sorted((query or {}).items()))
        cl = str(len(body)) if body else ''
        g = lambda k: h.get(k, '')
        sts = '\n'.join([m, '', '', cl, '', g('Content-Type'), '', '', g('If-Match'), g('If-None-Match'), '', '']) + '\n' + xs + cr
        h['Authorization'] = f'SharedKey {s.acct}:' + base64.b64encode(hmac.new(s.key, sts.encode(), hashlib.sha256).digest()).decode()
        u = f'/{s.acct}{path}' + ('?' + urllib.parse.urlencode(query) if query else '')
        return s.h(m, u, h, body, sync)
    def cond(s, if_none, if_match):
        return {'If-None-Match': '*' if if_none else None, 'If-Match': if_match}
    def p(s, k): return f'/{s.b}/{q(k)}'
    def mkbucket(s): return s.req('PUT', f'/{s.b}', {'restype': 'container'})[0]
    def put(s, k, body, if_none=False, if_match=None, sync=None, lease=None):
        st, h, d = s.req('PUT', s.p(k), None, {'x-ms-blob-type': 'BlockBlob', 'x-ms-lease-id': lease, **s.cond(if_none, if_match)}, body, sync)
        return st, h.get('etag'), d
    def get(s, k):
        st, h, d = s.req('GET', s.p(k)); return st, d, h.get('etag')
    def delete(s, k, if_match=None): return s.req('DELETE', s.p(k), None, s.cond(False, if_match))[0]
    def list(s, prefix):
        out, tok = [], None
        while True:
            qs = {'restype': 'container', 'comp': 'list', 'prefix': prefix}
            if tok: qs['marker'] = tok
            st, h, d = s.req('GET', f'/{s.b}', qs)
            if st != 200: return None
            t = d.decode(); out += re.findall(r'<Name>([^<]*)</Name>', t)
            m = re.search(r'<NextMarker>([^<]+)<', t)
            if not m: return out
            tok = m.group(1)
    def mp_begin(s, k, body):
        bid = base64.b64encode(uuid.uuid4().bytes).decode()
        st, h, d = s.req('PUT', s.p(k), {'comp': 'block', 'blockid': bid}, None, body)
        return bid if st == 201 else None
    def mp_complete(s, k, ctx, if_none=False, if_match=None, sync=None):
        x = f'<?xml version="1.0" encoding="utf-8"?><BlockList><Latest>{ctx}</Latest></BlockList>'.encode()
        st, h, d = s.req('PUT', s.p(k), {'comp': 'blocklist'}, s.cond(if_none, if_match), x, sync)
        return st, d
    def lease(s, k, action, **kw):
        st, h, d = s.req('PUT', s.p(k), {'comp': 'lease'}, {'x-ms-lease-action': action, **kw})
        return st, h.get('x-ms-lease-id')

class GcsXml(S3):
    """what the object_store crate sends to GCS: the XML API"""
    kind = 'gcs-xml'; multipart = False
    def hd(s, **kw): return {'Authorization': 'Bearer x', **{k: v for k, v in kw.items() if v is not None}}
    def cond(s, if_none, if_match):
        return {'x-goog-if-generation-match': '0' if if_none else if_match}
    def mkbucket(s): return s.h('POST', '/storage/v1/b?project=p', {'Content-Type': 'application/json'}, json.dumps({'name': s.b}).encode())[0]
    def put(s, k, body, if_none=False, if_match=None, sync=None):
        st, h, d = s.h('PUT', s.p(k), s.hd(**s.cond(if_none, if_match)), body, sync)
        return st, h.get('x-goog-generation'), d
    def get(s, k):
        st, h, d = s.h('GET', s.p(k), s.hd()); return st, d, h.get('x-goog-generation')

class GcsJson(GcsXml):
    kind = 'gcs-json'
    def put(s, k, body, if_none=False, if_match=None, sync=None):
        c = '&ifGenerationMatch=' + ('0' if if_none else if_match) if (if_none or if_match) else ''
        st, h, d = s.h('POST', f'/upload/storage/v1/b/{s.b}/o?uploadType=media&name={q(k,"")}{c}', {'Content-Type': 'text/plain'}, body, sync)
        try: g = json.loads(d).get('generation')
        except Exception: g = None
        return st, g, d
    def get(s, k):
        st, h, d = s.h('GET', f'/storage/v1/b/{s.b}/o/{q(k,"")}', {})
        if st != 200: return st, d, None
        g = json.loads(d).get('generation')
        st, h, d = s.h('GET', f'/storage/v1/b/{s.b}/o/{q(k,"")}?alt=media', {}); return st, d, g
    def delete(s, k, if_match=None): return s.h('DELETE', f'/storage/v1/b/{s.b}/o/{q(k,"")}', {})[0]
    def list(s, prefix):
        st, h, d = s.h('GET', f'/storage/v1/b/{s.b}/o?prefix={q(prefix,"")}', {})
        return [i['name'] for i in json.loads(d).get('items', [])] if st == 200 else None

OK = (200, 201); LOST = (409, 412)
N = 16
def par(fn, n=N):
    ts = [threading.Thread(target=fn, args=(i,), daemon=True) for i in range(n)]
    [t.start() for t in ts]; [t.join() for t in ts]

class Team:
    """n standing clients (so connections are kept), run(fn) calls fn(i) in each"""
    def __init__(s, n=N):
        s.n = n; s.go = threading.Barrier(n + 1); s.end = threading.Barrier(n + 1); s.fn = None
        for i in range(n): threading.Thread(target=s.loop, args=(i,), daemon=True).start()
    def loop(s, i):
        while True:
            s.go.wait()
            try: s.fn(i)
            except Exception as e: print('client died', repr(e), file=sys.stderr)
            s.end.wait()
    def run(s, fn): s.fn = fn; s.go.wait(); s.end.wait()

def check1(D, a):
    """put-if-absent race"""
    run = uuid.uuid4().hex[:6]; st = Counter(); two = none = wrong = odd = 0; team = Team()
    for r in range(a.rounds):
        key = f'c1/{run}/{r}'; res = [None]*N; bar = threading.Barrier(N); size = (40, 40, 65536)[r % 3]
        bodies = [(f'{i}:{uuid.uuid4()}:'.encode() * (size // 40 + 1)) for i in range(N)]
        def go(i): res[i] = D.put(key, bodies[i], if_none=True, sync=bar if r % 3 else None)[0]
        team.run(go)
        st.update(res); w = [i for i in range(N) if res[i] in OK]
        if len(w) > 1: two += 1
        elif not w: none += 1
        if any(x not in OK + LOST for x in res): odd += 1
        s, d, _ = D.get(key)
        if len(w) >= 1 and d not in [bodies[i] for i in w]: wrong += 1
    return dict(rounds=a.rounds, rounds_with_two_or_more_winners=two, rounds_without_winner=none, content_not_winners=wrong, rounds_with_odd_status=odd, statuses=dict(st), ok=not (two or none or wrong or odd))

def check2(D, a, key=None, limit=120):
    """compare-and-swap counter"""
    key = key or f'c2/{uuid.uuid4().hex[:6]}'; D.put(key, b'0')
    lock = threading.Lock(); st = Counter(); wins = []; t0 = time.time(); bad = [0]
    def go(i):
        while len(wins) < a.cas and time.time() - t0 < limit:
            s, d, e = D.get(key)
            if s != 200 or e is None or not d.isdigit(): bad[0] += 1; st[f'get{s}'] += 1; time.sleep(.01); continue
            v = int(d) + 1; s, _, _ = D.put(key, str(v).encode(), if_match=e)
            with lock:
                st[s] += 1
                if s in OK: wins.append(v)
    par(go)
    s, d, _ = D.get(key); final = int(d) if d.isdigit() else None
    dup = len(wins) - len(set(wins))
    return dict(successes=len(wins), final_counter=final, lost_updates=len(wins) - (final or 0), same_value_won_twice=dup, bad_reads=bad[0], statuses={str(k): v for k, v in st.items()},
                secs=round(time.time()-t0, 1), ok=final == len(wins) and not dup and len(wins) >= a.cas and not bad[0])

def check2b(D, a):
    """compare-and-swap race with last-byte sync: all clients hold the same etag"""
    key = f'c2b/{uuid.uuid4().hex[:6]}'; _, e, _ = D.put(key, b'start'); st = Counter(); two = none = wrong = 0; team = Team()
    e = D.get(key)[2]
    for r in range(a.rounds):
        res = [None]*N; bar = threading.Barrier(N); bodies = [f'{r}:{i}:{uuid.uuid4()}'.encode() * (1, 1000)[r % 2] for i in range(N)]
        def go(i): res[i] = D.put(key, bodies[i], if_match=e or '"none"', sync=bar)
        team.run(go)
        w = [i for i in range(N) if res[i][0] in OK]; st.update(x[0] for x in res)
        if len(w) > 1: two += 1
        if not w: none += 1
        s, d, e = D.get(key)
        if w and d not in [bodies[i] for i in w]: wrong += 1
    return dict(rounds=a.rounds, rounds_with_two_or_more_winners=two, rounds_without_winner=none, content_not_winners=wrong, statuses=dict(st), ok=not (two or none or wrong))

def check3(D, a):
    """stale etag; ABA"""
    k = f'c3/{uuid.uuid4().hex[:6]}'; get = lambda: D.get(k)[2]
    D.put(k, b'A'); e1 = get(); D.put(k, b'B'); e2 = get()
    stale = D.put(k, b'X', if_match=e1 or '"x"')[0]
    D.put(k, b'A'); e3 = get(); aba = D.put(k, b'A2', if_match=e1 or '"x"')[0]
    D.put(k, b'S'); s1 = get(); D.put(k, b'S'); s2 = get()
    same = D.put(k, b'Y', if_match=s1 or '"x"')[0]
    return dict(etag_A=e1, etag_is_md5=(e1 or '').strip('"') == hashlib.md5(b'A').hexdigest(), stale_after_other_content=stale, equal_content_equal_etag=s1 == s2, stale_after_equal_overwrite=same, aba_etag_equal=e1 == e3, aba_put=aba, ok=stale in LOST)

def check4(D, a):
    """missing keys and delete"""
    k = f'c4/{uuid.uuid4().hex[:6]}'; fake = '"d41d8cd98f00b204e9800998ecf8427e"' if 'gcs' not in D.kind else '12345'
    miss = D.put(k, b'1', if_match=fake); c1 = D.put(k, b'1', if_none=True)[0]; c2 = D.put(k, b'2', if_none=True); g = D.get(k)[1]
    dl = D.delete(k); g2 = D.get(k)[0]; c3 = D.put(k, b'3', if_none=True)[0]; e = D.get(k)[2]
    D.put(k, b'4'); dstale = D.delete(k, if_match=e) if e else None
    code = lambda d: (re.search(rb'<Code>(\w+)', d) or [b'', d[:60]])[1].decode(errors='replace')
    return dict(if_match_missing=[miss[0], code(miss[2])], create=c1, create_again=[c2[0], code(c2[2])], kept=g == b'1', delete=dl, get_after_delete=g2, create_after_delete=c3, delete_with_stale_etag=dstale,
                ok=miss[0] in (404, 412) and c1 in OK and c2[0] in LOST and g == b'1' and dl in (200, 202, 204) and g2 == 404 and c3 in OK)

def check5(D, a):
    """read-after-write, list-after-write, torn reads, under load"""
    run = uuid.uuid4().hex[:6]; bad = Counter(); stop = threading.Event(); n = Counter(); hot = f'c5hot/{run}'
    mk = lambda i: bytes([65 + i % 26]) * (100000 + 37 * (i % 26)); D.put(hot, mk(0))
    def go(i):
        if i < 8:
            for j in range(25):
                k = f'c5/{run}/{i}/{j:03}'; b = uuid.uuid4().hex.encode()
                if D.put(k, b)[0] not in OK: bad['put'] += 1
                if D.get(k)[1] != b: bad['read_after_write'] += 1
                l = D.list(f'c5/{run}/{i}/')
                if l is None: bad['list_error'] += 1
                elif k not in l: bad['list_after_write'] += 1
                b2 = uuid.uuid4().hex.encode(); D.put(k, b2)
                if D.get(k)[1] != b2: bad['read_after_overwrite'] += 1
                if j % 3 == 0:
                    D.delete(k)
                    if D.get(k)[0] != 404: bad['read_after_delete'] += 1
                    l = D.list(f'c5/{run}/{i}/')
                    if l is None: bad['list_error'] += 1
                    elif k in l: bad['list_after_delete'] += 1
                n['cycles'] += 1
            if i == 0: time.sleep(.1); stop.set()
        elif i < 12:
            x = i
            while not stop.is_set(): x += 4; D.put(hot, mk(x)); n['hot_writes'] += 1
        else:
            while not stop.is_set():
                s, d, e = D.get(hot); n['hot_reads'] += 1
                if s != 200: bad[f'hot_read_{s}'] += 1
                elif len(set(d)) != 1 or d != mk(d[0] - 65): bad['torn_read'] += 1
                elif e and re.fullmatch(r'"[0-9a-f]{32}"', e) and D.kind == 's3' and e.strip('"') != hashlib.md5(d).hexdigest(): bad['etag_of_another_body'] += 1
    par(go)
    return dict(**n, bad=dict(bad), ok=not bad)

def check6(D, a):
    """multipart / block list with a condition"""
    if not D.multipart: return dict(ok=None, note='not tried')
    run = uuid.uuid4().hex[:6]; out = {}; team = Team(); R = a.mrounds; good = True
    for mode in ('if_none_match', 'if_match'):
        st = Counter(); two = none = wrong = nob = 0
        for r in range(R):
            key = f'c6/{run}/{mode}/{r}'; res = [None]*N; bar = threading.Barrier(N); bodies = [f'{i}:{uuid.uuid4()}'.encode() for i in range(N)]; e = None
            if mode == 'if_match': D.put(key, b'base'); e = D.get(key)[2]
            ctx = [None]*N
            if D.kind == 'azure':      # blocks of one blob are shared and dropped at commit: stage them one by one
                for i in range(N): ctx[i] = D.mp_begin(key, bodies[i])
            else:
                def beg(i): ctx[i] = D.mp_begin(key, bodies[i])
                team.run(beg)
            if None in ctx: nob += 1; continue
            def go(i): res[i] = D.mp_complete(key, ctx[i], if_none=mode == 'if_none_match', if_match=e, sync=bar)[0]
            team.run(go)
            st.update(res); w = [i for i in range(N) if res[i] in OK]
            two += len(w) > 1; none += not w
            d = D.get(key)[1]; wrong += bool(w) and d not in [bodies[i] for i in w]
        out[mode] = dict(rounds=R, two_or_more=two, none=none, wrong=wrong, not_begun=nob, statuses=dict(st)); good &= not (two or none or wrong or nob)
    k = f'c6/{run}/stale'; D.put(k, b'1'); e = D.get(k)[2]; D.put(k, b'2'); c = D.mp_begin(k, b'mp'); out['stale_etag'] = D.mp_complete(k, c, if_match=e)[0] if c else None
    out['create_over_existing'] = None
    k2 = k + '2'; c = D.mp_begin(k2, b'mp'); D.put(k2, b'1')
    if D.kind == 'azure': c = D.mp_begin(k2, b'mp')
    out['create_over_existing'] = D.mp_complete(k2, c, if_none=True)[0] if c else None
    good &= out['stale_etag'] in LOST and out['create_over_existing'] in LOST
    return dict(**out, ok=good)

def check8(D, a):
    """Azure blob leases"""
    if D.kind != 'azure': return dict(ok=None)
    two = none = 0; team = Team(); st = Counter(); run = uuid.uuid4().hex[:6]
    for r in range(100):
        k = f'c8/{run}/{r}'; D.put(k, b'x'); res = [None]*N; bar = threading.Barrier(N)
        def go(i): bar.wait(); res[i] = D.lease(k, 'acquire', **{'x-ms-lease-duration': '15', 'x-ms-proposed-lease-id': str(uuid.uuid4())})
        team.run(go); st.update(x[0] for x in res); w = [x for x in res if x[0] in OK]; two += len(w) > 1; none += not w
    wo = D.put(k, b'y')[0]; wi = D.put(k, b'y', lease=w[0][1])[0]; dele = D.delete(k)
    time.sleep(16); after = D.put(k, b'z')[0]
    return dict(rounds=100, two_or_more=two, none=none, statuses=dict(st), write_without_lease=wo, write_with_lease=wi, delete_without_lease=dele, write_after_expiry=after, ok=not (two or none) and wo in LOST and wi in OK and dele in LOST and after in OK)

def checkrps(D, a, secs=3):
    out = {}; run = uuid.uuid4().hex[:6]; b = os.urandom(1024)
    for name, f in (('put', lambda i, j: D.put(f'rps/{run}/{i}/{j % 50}', b)[0]), ('get', lambda i, j: D.get(f'rps/{run}/{i}/{j % 20}')[0])):
        n = Counter(); t0 = time.time()
        def go(i):
            j = 0
            while time.time() - t0 < secs: n[f(i, j)] += 1; j += 1
        par(go, 8); out[name + '_1KiB_per_s'] = round(sum(n.values()) / (time.time() - t0)); out[name + '_statuses'] = {str(k): v for k, v in n.items()}
    return dict(**out, ok=all(int(s) in OK for k in ('put', 'get') for s in out[k + '_statuses']))

def wait_up(host, port, proc=None, limit=90):
    t0 = time.time()
    while time.time() - t0 < limit:
        try:
            c = http.client.HTTPConnection(host, port, timeout=2); c.request('GET', '/'); c.getresponse().read(); c.close(); return round(time.time() - t0, 2)
        except OSError: time.sleep(.05)
        except Exception: time.sleep(.05)
    raise SystemExit('server did not come up')

def crash(D, a):
    log = open('/tmp/objstore/crash.log', 'ab')
    start = lambda: subprocess.Popen(shlex.split(a.start), stdout=log, stderr=log, start_new_session=True)
    p = start(); up = wait_up(a.host, a.port); D.mkbucket(); acked = {}; inflight = {}; cnt = [0]; lk = threading.Lock(); stop = threading.Event(); run = uuid.uuid4().hex[:6]
    ck = f'c7/{run}/counter'; D.put(ck, b'0')
    def go(i):
        j = 0
        while not stop.is_set():
            k = f'c7/{run}/{i}/{j}'; b = (uuid.uuid4().hex * 30).encode(); j += 1; inflight[k] = b
            if D.put(k, b, if_none=True)[0] in OK: acked[k] = b
            s, d, e = D.get(ck)
            if s == 200 and e and d.isdigit() and D.put(ck, str(int(d)+1).encode(), if_match=e)[0] in OK:
                with lk: cnt[0] = max(cnt[0], int(d)+1)
    ts = [threading.Thread(target=go, args=(i,), daemon=True) for i in range(8)]; [t.start() for t in ts]
    time.sleep(a.crash_after); os.killpg(p.pid, signal.SIGKILL); stop.set(); p.wait(); [t.join() for t in ts]
    p = start(); up2 = wait_up(a.host, a.port); miss = wrong = 0; torn = 0
    for k, b in acked.items():
        s, d, _ = D.get(k); miss += s != 200; wrong += s == 200 and d != b
    for k, b in inflight.items():
        if k not in acked:
            s, d, _ = D.get(k); torn += s == 200 and d != b
    s, d, _ = D.get(ck); L = D.list(f'c7/{run}/')
    nlist = len(L) if L is not None else None
    again = Counter(D.put(k, b'again', if_none=True)[0] for k in list(acked)[:50])
    os.killpg(p.pid, signal.SIGKILL); p.wait()
    return dict(acked=len(acked), lost=miss, wrong=wrong, torn_inflight=torn, counter_acked=cnt[0], counter_after=d.decode()[:20] if s == 200 else f'status {s}', listed=nlist, recreate_statuses={str(k): v for k, v in again.items()}, up=up, up_again=up2, ok=not (miss or wrong or torn))

if __name__ == '__main__':
    ap = argparse.ArgumentParser(); ap.add_argument('--kind', default='s3'); ap.add_argument('--host', default='127.0.0.1'); ap.add_argument('--port', type=int, required=True)
    ap.add_argument('--checks', default='4,3,1,2,2b,5,6,8,rps'); ap.add_argument('--rounds', type=int, default=300); ap.add_argument('--mrounds', type=int, default=60); ap.add_argument('--cas', type=int, default=2000)
    ap.add_argument('--crash', action='store_true'); ap.add_argument('--crash-after', type=float, default=4); ap.add_argument('--start'); ap.add_argument('--name', default='')
    a = ap.parse_args(); sys.setswitchinterval(.0005)
    D = {'s3': S3, 'azure': Azure, 'gcs-xml': GcsXml, 'gcs-json': GcsJson}[a.kind](a.host, a.port)
    if a.crash: print(json.dumps({'server': a.name, 'check': '7', **crash(D, a)}), flush=True); sys.exit()
    print(json.dumps({'server': a.name, 'mkbucket': D.mkbucket()}), flush=True)
    bad = 0
    for c in a.checks.split(','):
        t0 = time.time()
        try: r = globals()['check' + c](D, a)
        except Exception as e: r = dict(ok=False, exception=repr(e))
        bad += r.get('ok') is False
        print(json.dumps({'server': a.name, 'check': c, 'ok': r.pop('ok'), **r, 't': round(time.time() - t0, 1)}), flush=True)
    sys.exit(bad > 0)

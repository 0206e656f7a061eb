// The SDK of the JavaScript template, whose folder is in the variable SDK. The expected buffers were written by hand from the WIT's
// description of each layout.
import assert from 'node:assert/strict';
import { env } from 'node:process';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

const sdk = (file) => import(pathToFileURL(`${env.SDK}/${file}`).href);
const {
  BINARY,
  BOOLEAN,
  DATE,
  decimal,
  Decimal,
  encrypt,
  find,
  FLOAT32,
  FLOAT64,
  hashes,
  INT16,
  INT32,
  INT64,
  Operation,
  pick,
  Plan,
  RawColumn,
  Settings,
  STRING,
  TIMESTAMP,
  TIMESTAMP_NTZ,
  Timestamp,
} = await sdk('index.js');
const { decode, encode } = await sdk('columns.js');
const { ff1Encrypt } = await sdk('ff1.js');
const { exceptionCode } = await sdk('shell.js');
const { run, table, withHost } = await sdk('testing.js');

const bytes = (hex) => [...Buffer.from(hex, 'hex')];

function bothWays(type, values, validity, offsets, hex) {
  const column = encode(type, values);
  assert.deepEqual(column.validity && [...column.validity], validity, String(type));
  assert.deepEqual([...column.offsets], offsets, String(type));
  assert.deepEqual([...column.values], bytes(hex), String(type));
  assert.deepEqual(decode(type, column, values.length), values);
}

test('layouts', () => {
  bothWays(INT16, [1, null, -2], [5], [], '01000000feff');
  bothWays(INT32, [1, -2], undefined, [], '01000000feffffff');
  bothWays(INT64, [-(2n ** 63n), 2n ** 63n - 1n], undefined, [], '0000000000000080ffffffffffffff7f');
  bothWays(FLOAT32, [0.5], undefined, [], '0000003f');
  bothWays(FLOAT64, [null, -2], [2], [], '000000000000000000000000000000c0');
  bothWays(BOOLEAN, [true, null, false, true], [13], [], '09');
  bothWays(STRING, ['Bä', null, '', 'z'], [13], [0, 3, 3, 3, 4], '42c3a47a');
  bothWays(STRING, ['\ufeffa'], undefined, [0, 4], 'efbbbf61');
  bothWays(BINARY, [Uint8Array.of(0, 255), null], [1], [0, 2, 2], '00ff');
  bothWays(DATE, [new Date('1970-01-02'), null, new Date('1969-12-31')], [5], [], '0100000000000000ffffffff');
  bothWays(TIMESTAMP, [new Timestamp(1000005n)], undefined, [], '45420f0000000000');
  bothWays(TIMESTAMP_NTZ, [new Timestamp(-1n)], undefined, [], 'ffffffffffffffff');
  const cents = [new Decimal(-1n, 2), null, new Decimal(99999n, 2)];
  bothWays(decimal(5, 2), cents, [5], [], `${'ff'.repeat(16)}${'00'.repeat(16)}9f8601${'00'.repeat(13)}`);
});

test('38 digits are exact', () => {
  for (const text of ['9'.repeat(38), `-${'9'.repeat(38)}`]) {
    const [back] = decode(decimal(38, 0), encode(decimal(38, 0), [Decimal.parse(text)]), 1);
    assert.equal(back.toString(), text);
  }
  assert.equal(Decimal.parse('-12.50').toString(), '-12.50');
  assert.equal(Decimal.parse('0.05').rescale(4).toString(), '0.0500');
  assert.equal(new Decimal(-5n, 3).toString(), '-0.005');
  assert.throws(() => Decimal.parse('0.05').rescale(1), RangeError);
  assert.throws(() => Decimal.parse('1e3'), RangeError);
});

test('moments keep their microseconds, before 1970 too', () => {
  assert.equal(new Timestamp(-1n).toString(), '1969-12-31T23:59:59.999999');
  assert.equal(new Timestamp(1_719_828_000_123_456n).toString(), '2024-07-01T10:00:00.123456');
  assert.equal(Timestamp.fromDate(new Date('2024-07-01T10:00:00Z')).micros, 1_719_828_000_000_000n);
});

test('a value that does not fit names its row and not itself', () => {
  for (const [type, good, bad] of [
    [INT16, 1, 40000],
    [INT32, 1, 2 ** 31],
    [INT32, 1, 1.5],
    [INT64, 1n, 2n ** 63n],
    [INT64, 1n, 77777],
    [FLOAT32, 1, 1e300],
    [FLOAT64, 1, '77777'],
    [BOOLEAN, true, 1],
    [decimal(5, 2), new Decimal(1n, 0), new Decimal(1000n, 0)],
    [decimal(5, 2), new Decimal(1n, 0), new Decimal(1n, 3)],
    [decimal(5, 2), new Decimal(1n, 0), 77777],
    [DATE, new Date(0), new Date(1)],
    [DATE, new Date(0), new Date(NaN)],
    [TIMESTAMP, new Timestamp(1n), new Date(0)],
    [STRING, 'a', 77777],
    [STRING, '\u{1f600}', '\ud800'],
    [BINARY, Uint8Array.of(1), '77777'],
  ]) {
    assert.throws(() => encode(type, [null, good, bad, good], 'amount'), (error) => {
      assert.deepEqual([error.code, error.column, error.row], ['invalid-value', 'amount', 2], String(type));
      assert.ok(!error.message.includes('77777'));
      return true;
    });
  }
});

test('buffers of another shape are refused, and unaligned ones are read', () => {
  const none = new Int32Array(0);
  for (const [type, column, rows] of [
    [INT32, new RawColumn(undefined, none, new Uint8Array(7)), 2],
    [STRING, new RawColumn(undefined, Int32Array.of(0, 2), Uint8Array.of(97)), 1],
    [STRING, new RawColumn(undefined, Int32Array.of(0, 1), Uint8Array.of(255)), 1],
    [BOOLEAN, new RawColumn(undefined, none, new Uint8Array(0)), 1],
    [INT16, new RawColumn(new Uint8Array(0), none, new Uint8Array(2)), 1],
    [decimal(9, 2), new RawColumn(undefined, none, new Uint8Array(8)), 1],
  ]) {
    assert.throws(() => decode(type, column, rows, 'a'), { code: 'malformed-input' });
  }
  const odd = new Uint8Array([0, 1, 0, 0, 0]).subarray(1);
  assert.deepEqual(decode(INT32, new RawColumn(undefined, none, odd), 1), [1]);
});

class Filtering {
  open(of) {
    const plan = Plan.passing(of);
    plan.compute('twice', INT32, { sources: ['n'], how: 'n twice', nullable: false });
    plan.read('_operation');
    plan.drop('secret');
    return plan;
  }

  apply(batch) {
    batch.column('n').forEach((n, row) => {
      if (n === null) batch.reject(row, 'n', 'missing');
      else if (n < 0) batch.drop(row);
    });
    assert.deepEqual(batch.column('_operation'), new Array(batch.rows).fill(4));
    return { twice: batch.column('n').map((n, row) => (batch.isWithoutResult(row) ? null : n * 2)) };
  }
}

test('rows are dropped and rejected', () => {
  const rows = { n: [1, -1, null, 4], _operation: [4, 4, 4, 4] };
  const after = new Array(4).fill(Operation.UPDATE_AFTER);
  const result = run(Filtering, table({ n: INT32, secret: STRING }), {}, rows, after);
  assert.deepEqual(result.columns, { n: [1, 4], twice: [2, 8] });
  assert.deepEqual(result.dropped, [1]);
  assert.deepEqual(result.rejects, [{ row: 2, column: 'n', code: 'missing' }]);
});

test('a reject names a column that came in', () => {
  class Misspelt extends Filtering {
    apply(batch) {
      batch.reject(0, '_operation', 'of-a-metadata-column');
      batch.reject(1, 'twice', 'of-an-output');
    }
  }
  assert.throws(() => run(Misspelt, table({ n: INT32 }), {}, { n: [1, 2] }), {
    message: 'the table has no column twice: a reject names the column that came in',
  });
});

test("an answer that is not the plan's is refused", () => {
  for (const [answer, code] of [
    [{ twice: [1] }, 'wrong-length'],
    [{ thrice: [1, 2] }, 'wrong-columns'],
    [undefined, 'wrong-columns'],
    [{ twice: [1, null] }, 'null-in-required-column'],
    // Its length is right.
    [{ twice: '12' }, 'not-a-column'],
  ]) {
    class Answering extends Filtering {
      apply() {
        return answer;
      }
    }
    assert.throws(() => run(Answering, table({ n: INT32 }), {}, { n: [1, 2] }), { code });
  }
});

test('a missing key hints at its misspelling', () => {
  assert.throws(() => new Settings({ colums: [] }).texts('columns'), {
    message: '`columns` is missing; is `colums` a misspelling of it?',
  });
  assert.throws(() => new Settings({ a: { mode: 'rejct' } }).section('a').choice('mode', ['reject', 'null']), {
    message: 'a.mode: did you mean `reject`?',
  });
});

// printf 'ctx\0anna' | openssl dgst -sha256 -hmac 'secret of pii'
const ANNA = '296d2e31c94d62e2099d4ede26247c37d45f7191a41f4cf3cd197919c139a6f5';

test('hashes and picks are those of another implementation', () => {
  withHost({}, () => {
    const [first, none] = hashes('pii', ['anna', null], { context: 'ctx' });
    assert.equal(Buffer.from(first).toString('hex'), ANNA);
    assert.equal(none, null);
    const expected = 'abcde'[Number((BigInt(`0x${ANNA.slice(0, 16)}`) * 5n) >> 64n)];
    assert.deepEqual(pick('pii', ['anna', null], [...'abcde'], { context: 'ctx' }), [expected, null]);
  });
  withHost({ keys: [] }, () => assert.throws(() => hashes('pii', ['a']), { code: 'key-not-granted' }));
  assert.throws(() => hashes('pii', ['a']), /there is no host here/);
});

test("FF1 is NIST's: samples 7 to 9 of SP 800-38G", () => {
  const key = Buffer.from('2B7E151628AED2A6ABF7158809CF4F3CEF4359D8D580AA4F7F036D6F04FC6A94', 'hex');
  const encrypted = (tweak, radix, text) =>
    ff1Encrypt(key, Buffer.from(tweak, 'hex'), radix, [...text].map((character) => parseInt(character, radix)))
      .map((digit) => digit.toString(radix))
      .join('');
  assert.equal(encrypted('', 10, '0123456789'), '6657667009');
  assert.equal(encrypted('39383736353433323130', 10, '0123456789'), '1001623463');
  assert.equal(encrypted('3737373770717273373737', 36, '0123456789abcdefghi'), 'xs8a0azh2avyalyzuwd');
});

test('encryption refuses what could be guessed', () => {
  const made = withHost({}, () => encrypt('pii', ['123456789', '12345', null, '12345x789', '1'.repeat(1025)]));
  assert.deepEqual(made.status, ['done', 'too-short', 'done', 'foreign-character', 'too-long']);
  assert.match(made.values[0], /^[0-9]{9}$/);
  assert.deepEqual(made.values.slice(1), [null, null, null, null]);
});

test('lookups', () => {
  const lookups = { countries: [{ code: 'CH', name: 'Schweiz' }, { code: 'XX' }] };
  withHost({ lookups }, () => {
    assert.deepEqual(find('countries', 'name', ['CH', null, 'XX', 'DE']), ['Schweiz', null, null, null]);
    assert.throws(() => find('other', 'name', ['CH']), { code: 'lookup-not-granted' });
    assert.throws(() => find('countries', 'nam', ['CH']), { code: 'unknown-lookup-column' });
  });
});

test('the code of what was thrown shows the kind of an error and nothing of another thing', () => {
  assert.equal(exceptionCode(new TypeError('Anna')), 'exception-type-error');
  assert.equal(exceptionCode(new RangeError('Anna')), 'exception-range-error');
  for (const [thrown, code] of [
    [{ name: 'Anna', message: 'x' }, 'exception-object'],
    [Object.assign(() => 1, { displayName: 'Anna' }), 'exception-function'],
    ['Anna', 'exception-string'],
    [4711n, 'exception-bigint'],
    [null, 'exception-object'],
    [undefined, 'exception-undefined'],
  ]) {
    assert.equal(exceptionCode(thrown), code);
  }
});

// Run by `node --test`: no WebAssembly.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ConfigError, INT64, Missing, Operation, STRING, Unsupported } from './sluice_plugin/index.js';
import { run, table, withHost } from './sluice_plugin/testing.js';
import {{class_name}}, { masked, normalise } from './transform.js';

const ACCOUNTS = table({ id: INT64, iban: STRING });

function apply(ibans, config = {}, operations) {
  const rows = { id: ibans.map((_, row) => BigInt(row)), iban: ibans };
  return withHost({}, () => run({{class_name}}, ACCOUNTS, { columns: ['iban'], ...config }, rows, operations));
}

// The examples of the IBAN registry.
const SWISS = 'CH93 0076 2011 6238 5295 7';
const GERMAN = 'DE89 3704 0044 0532 0130 00';

test('an account number has one form however it is written', () => {
  for (const text of [SWISS, 'CH9300762011623852957', 'ch93-0076-2011-6238-5295-7', ' CH93\u00a00076 2011 6238 5295 7']) {
    assert.equal(normalise(text), 'CH9300762011623852957');
  }
  assert.equal(normalise('GB29 NWBK 6016 1331 9268 19'), 'GB29NWBK60161331926819');
});

test('a wrong digit is noticed', () => {
  for (const text of ['CH93 0076 2011 6238 5295 8', 'CH39 0076 2011 6238 5295 7', 'ask Anna', 'CH93']) {
    assert.equal(normalise(text), null);
  }
});

test('the country and the last characters stay', () => {
  assert.equal(masked('CH9300762011623852957', 4), 'CH***************2957');
  assert.equal(masked('CH9300762011623852957', 0), 'CH*******************');
});

test('other columns pass, and NULL stays NULL', () => {
  const { columns, plan } = apply([SWISS, null, ' ', GERMAN]);
  assert.deepEqual(columns.iban, ['CH***************2957', null, null, 'DE****************3000']);
  assert.deepEqual(columns.iban_country, ['CH', null, null, 'DE']);
  assert.deepEqual(columns.id, [0n, 1n, 2n, 3n]);
  assert.deepEqual(plan.outputs.map((output) => output.name), ['id', 'iban', 'iban_country']);
});

test('equal account numbers have equal tokens', () => {
  const { columns } = apply([SWISS, 'CH9300762011623852957', GERMAN, null], { key: 'pii' });
  // printf 'iban\0CH9300762011623852957' | openssl dgst -sha256 -hmac 'secret of pii'
  assert.equal(columns.iban_token[0], 'e4b3248a1a03fccb726d18c3134d51c9');
  assert.equal(columns.iban_token[1], columns.iban_token[0]);
  assert.notEqual(columns.iban_token[2], columns.iban_token[0]);
  assert.equal(columns.iban_token[3], null);
});

test('a row whose text is no account number is rejected or null', () => {
  const { columns, rejects } = apply(['ask Anna', SWISS]);
  assert.deepEqual(rejects, [{ row: 0, column: 'iban', code: 'not-an-iban' }]);
  assert.deepEqual(columns.id, [1n]);
  assert.deepEqual(apply(['ask Anna'], { invalid: 'null' }).columns.iban, [null]);
});

test('an empty batch is nothing special, and a delete is masked as an insert is', () => {
  assert.deepEqual(apply([]).columns.iban, []);
  const both = apply([SWISS, SWISS], {}, [Operation.DELETE, Operation.INSERT]).columns.iban;
  assert.equal(both[0], both[1]);
});

test('mistakes in the configuration are named', () => {
  const refused = (kind, config, message) => {
    assert.throws(() => run({{class_name}}, ACCOUNTS, config, {}), (error) => {
      assert.ok(error instanceof kind);
      assert.equal(error.message, message);
      return true;
    });
  };
  refused(ConfigError, { columns: ['iban'], keep_lst: 2 }, 'unknown key `keep_lst`, did you mean `keep_last`?');
  refused(ConfigError, { columns: ['iban'], keep_last: 5 }, 'keep_last: a whole number from 0 to 4 is expected');
  refused(ConfigError, {}, '`columns` is missing');
  refused(Missing, { columns: ['ibam', 'iban'] }, 'the table has no column ibam');
  refused(Unsupported, { columns: ['id'] }, 'column id: it is bigint, and account numbers are texts');
});

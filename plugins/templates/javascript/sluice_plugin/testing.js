/**
 * Calls a transform as the host would, in Node:
 *
 *     import { STRING } from './sluice_plugin/index.js';
 *     import { run, table, withHost } from './sluice_plugin/testing.js';
 *
 *     const result = withHost({}, () => run(Shout, table({ city: STRING }), {}, { city: ['Bern', null] }));
 *     assert.deepEqual(result.columns.city, ['BERN', null]);
 *
 * Values go through the same buffers as in a component, so a value that does not fit its column fails here already.
 */
import { createHmac } from 'node:crypto';

import { Operation } from './batch.js';
import { bit, decode, encode } from './columns.js';
import { ff1Encrypt } from './ff1.js';
import { KeyedError, LookupFailed, setBackend } from './host.js';
import { BINARY, METADATA, STRING, Table } from './plan.js';
import { applyTransform, openTransform } from './shell.js';

/** A table of these columns: types by name. */
export function table(types, { schema = 'dbo', name = 'people' } = {}) {
  const fields = Object.entries(types).map(([column, dataType]) => ({
    name: column,
    dataType,
    nullable: true,
    sourceType: String(dataType),
    key: null,
  }));
  return new Table(schema, name, `${schema}_${name}`, fields);
}

/**
 * Opens the transform and applies it to these rows, an array of values a column; a column that is not given is NULL.
 * `operations` are inserts if not given. Metadata columns can be given by name too. Answers `plan`, `columns` by name with the
 * rows left out that are not written, `rejects`, and `dropped`, the numbers of the dropped rows.
 */
export function run(Transform, table, config, rows, operations) {
  const opened = openTransform(Transform, table, JSON.stringify(config));
  const { plan } = opened;
  const count = Object.values(rows)[0]?.length ?? 0;
  const types = new Map([...METADATA, ...table.fields.map((field) => [field.name, field.dataType])]);
  for (const [name, values] of Object.entries(rows)) {
    if (!types.has(name) || values.length !== count) {
      throw new RangeError(`column ${name}: not in the table, or not of ${count} rows`);
    }
  }
  const done = Uint8Array.from(operations ?? new Array(count).fill(Operation.INSERT));
  if (done.length !== count) throw new RangeError(`${done.length} operations for ${count} rows`);
  const given = (name) => rows[name] ?? new Array(count).fill(null);
  const raw = plan.reads.map((name) => encode(types.get(name), given(name), name));
  const { columns, dropped, rejects } = applyTransform(opened, count, done, raw);
  const isGone = (row) => dropped !== undefined && bit(dropped, row);
  const rejected = new Set(rejects.map((reject) => reject.row));
  const written = (_, row) => !isGone(row) && !rejected.has(row);
  const out = {};
  let next = 0;
  for (const { name, source, computed } of plan.outputs) {
    const values = computed ? decode(computed.dataType, columns[next++], count, name) : given(source);
    out[name] = values.filter(written);
  }
  const numbers = Array.from({ length: count }, (_, row) => row);
  return { plan, columns: out, rejects, dropped: numbers.filter(isGone) };
}

/**
 * Calls `body` with a stand-in for the host. The secret of a key NAME is the text `secret of NAME`; `keys` says which are granted.
 * `lookups` has reference tables by name: rows, objects whose first property is the key. `messages` gets what is logged.
 */
export function withHost({ keys = ['pii'], lookups = {}, messages = [] }, body) {
  const secret = (key) => {
    if (!keys.includes(key)) throw new KeyedError('key-not-granted', `the key \`${key}\` is not granted`);
    return `secret of ${key}`;
  };
  const rowsOf = (name) => {
    if (!(lookups[name]?.length > 0)) {
      throw new LookupFailed('lookup-not-granted', `the reference table \`${name}\` is not granted`);
    }
    return lookups[name];
  };
  const digests = (key, context, rows, column) => {
    const of = secret(key);
    return decode(BINARY, column, rows).map((value) =>
      value === null ? Buffer.alloc(32) : createHmac('sha256', of).update(context).update('\0').update(value).digest(),
    );
  };
  const host = {
    hmacSha256: (key, context, rows, column) => new Uint8Array(Buffer.concat(digests(key, context, rows, column))),
    pick(key, context, count, rows, column) {
      if (count === 0) throw new KeyedError('bad-argument', 'there is nothing to pick from');
      const present = (row) => bit(column.validity, row);
      return digests(key, context, rows, column).map((digest, row) =>
        present(row) ? Number((digest.readBigUInt64BE(0) * BigInt(count)) >> 64n) : 0,
      );
    },
    ff1Encrypt(key, tweak, alphabet, rows, column) {
      const aes = createHmac('sha256', secret(key)).update('sluice ff1').digest();
      const characters = [...alphabet];
      if (characters.length < 2 || characters.length > 65536 || new Set(characters).size !== characters.length) {
        throw new KeyedError('bad-argument', 'the alphabet does not have 2 to 65,536 different characters');
      }
      if (tweak.length > 256) throw new KeyedError('bad-argument', 'the tweak is longer than 256 bytes');
      const texts = decode(STRING, column, rows);
      const answers = texts.map((text) => (text === null ? { status: 'done' } : ff1Text(aes, tweak, characters, text)));
      const values = encode(STRING, answers.map((answer) => answer.text ?? null));
      return { values, status: answers.map((answer) => answer.status) };
    },
    lookupColumns: (name) => Object.keys(rowsOf(name)[0]),
    find(name, column, rows, keyColumn) {
      const names = host.lookupColumns(name);
      if (!names.includes(column)) {
        throw new LookupFailed('unknown-lookup-column', `the reference table \`${name}\` has no column \`${column}\``);
      }
      const found = new Map(rowsOf(name).map((row) => [row[names[0]], row[column] ?? null]));
      return encode(STRING, decode(STRING, keyColumn, rows).map((wanted) => found.get(wanted) ?? null));
    },
    log: (level, message) => messages.push({ level, message }),
  };
  const before = setBackend(host);
  try {
    return body();
  } finally {
    setBackend(before);
  }
}

function ff1Text(aes, tweak, alphabet, text) {
  const characters = [...text];
  const digits = characters.map((character) => alphabet.indexOf(character));
  if (characters.length > 1024) return { status: 'too-long' };
  if (digits.includes(-1)) return { status: 'foreign-character' };
  if (characters.length < 2 || alphabet.length ** characters.length < 1_000_000) return { status: 'too-short' };
  const encrypted = ff1Encrypt(aes, tweak, alphabet.length, digits);
  return { status: 'done', text: encrypted.map((digit) => alphabet[digit]).join('') };
}

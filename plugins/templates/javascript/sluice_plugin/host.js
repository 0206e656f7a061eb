// What the host does for a transform: keys, reference tables, messages. Each works on a whole column at once. A key or a
// reference table must be granted by the table's configuration; the secret itself never enters the transform.
import { bit, decode, encode, RawColumn } from './columns.js';
import { ApplyError } from './errors.js';
import { BINARY, STRING } from './plan.js';

const ENCODER = new TextEncoder();
const TAG_BYTES = 32;

/** A computation with a key was refused: `key-not-granted`, `malformed-input` or `bad-argument`. */
export class KeyedError extends ApplyError {}

/** A look-up was refused: `lookup-not-granted`, `unknown-lookup-column` or `malformed-input`. */
export class LookupFailed extends ApplyError {}

let backend = null;

/** Sets what offers these functions, and returns what did before. For `component.js` and `testing.js`. */
export function setBackend(next) {
  const before = backend;
  backend = next;
  return before;
}

function host() {
  if (backend === null) {
    throw new Error('there is no host here; in a test, call the transform in `withHost` of sluice_plugin/testing.js');
  }
  return backend;
}

/**
 * The keyed hash of each value (a string, a `Uint8Array` or `null`), 32 bytes: HMAC-SHA-256 under the named key over the bytes
 * of `context`, one zero byte, and the bytes of the value (of a string, its UTF-8). `null` where the value is.
 *
 * Bring values that should be equal into one form first. Give each kind of value a context of its own, so that a telephone
 * number and a customer's number of the same digits do not get the same hash.
 */
export function hashes(key, values, { context = '' } = {}) {
  const { rows, column } = toColumn(values);
  const digests = host().hmacSha256(key, context, rows, column);
  return perRow(rows, column, (row) => digests.slice(TAG_BYTES * row, TAG_BYTES * (row + 1)));
}

/** As `hashes`, as the first `length` (16 to 64) lower-case hexadecimal digits. */
export function hashHex(key, values, { context = '', length = 64 } = {}) {
  if (!(length >= 16 && length <= 64)) throw new RangeError('a keyed hash has 16 to 64 hexadecimal digits');
  return hashes(key, values, { context }).map((digest) => digest && hex(digest).slice(0, length));
}

/**
 * Format-preserving encryption (FF1 with AES-256) of each text: it keeps its length and its alphabet. Answers `values` and, for
 * each, a `status`: `done`, `too-short` (fewer than 1,000,000 texts of its length exist), `foreign-character`, `too-long`. A text
 * that is not `done` is `null`.
 */
export function encrypt(key, values, { alphabet = '0123456789', tweak = new Uint8Array(0) } = {}) {
  const { rows, column } = toColumn(values);
  const answer = host().ff1Encrypt(key, tweak, alphabet, rows, column);
  return { values: decode(STRING, answer.values, rows), status: answer.status };
}

/** For each value one of the choices, the same one for the same value; `null` where the value is. */
export function pick(key, values, choices, { context = '' } = {}) {
  const { rows, column } = toColumn(values);
  const picked = host().pick(key, context, choices.length, rows, column);
  return perRow(rows, column, (row) => choices[picked[row]]);
}

/** The names of a reference table's columns, of which the first is its key. */
export function lookupColumns(table) {
  return host().lookupColumns(table);
}

/** For each key the text of `column` in the row of the reference table that has it; `null` where there is none. */
export function find(table, column, keys) {
  const { rows, column: raw } = toColumn(keys);
  return decode(STRING, host().find(table, column, rows, raw), rows);
}

/** Messages for the operator. Bounded in number and size, treated as sensitive and shown at debug level only. */
export const log = {
  debug: (message) => say('debug', message),
  info: (message) => say('info', message),
  warn: (message) => say('warn', message),
  error: (message) => say('error', message),
};

function say(level, message) {
  if (backend === null) console.error(`${level}: ${message}`);
  else backend.log(level, String(message));
}

function toColumn(values) {
  if (values instanceof RawColumn) {
    if (values.offsets.length === 0) {
      throw new ApplyError('malformed-input', 'keys and look-ups take columns of text or binary');
    }
    return { rows: values.offsets.length - 1, column: values };
  }
  const bytes = values.map((value) => (typeof value === 'string' ? ENCODER.encode(value) : value));
  return { rows: values.length, column: encode(BINARY, bytes) };
}

function perRow(rows, column, value) {
  return Array.from({ length: rows }, (_, row) => (bit(column.validity, row) ? value(row) : null));
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hex(bytes) {
  let text = '';
  for (const byte of bytes) text += HEX[byte];
  return text;
}

// Between arrays of values and the Arrow buffers of the boundary. Little-endian throughout.
import { ApplyError } from './errors.js';
import { Decimal, Timestamp } from './values.js';

const DAY_MS = 86_400_000;
const LARGEST_OFFSET = 2 ** 31 - 1;
const LARGEST_TEXT = 2 ** 28;
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * One column as plain Arrow buffers. `validity` is `undefined` when every row has a value; `offsets` is empty but for text and
 * binary, which have one more than rows.
 */
export class RawColumn {
  constructor(validity, offsets, values) {
    Object.assign(this, { validity, offsets, values });
  }
}

/** Bit i, least significant first, is 1 where `isSet(i)`. */
export function bitmap(rows, isSet) {
  const bits = new Uint8Array(Math.ceil(rows / 8));
  for (let row = 0; row < rows; row += 1) {
    if (isSet(row)) bits[row >> 3] |= 1 << (row & 7);
  }
  return bits;
}

/** Whether the bit of a row is 1; without bits, all are. */
export function bit(bits, row) {
  return bits === undefined || ((bits[row >> 3] >> (row & 7)) & 1) === 1;
}

const FIXED = {
  smallint: { array: Int16Array, low: -(2 ** 15), high: 2 ** 15 - 1 },
  int: { array: Int32Array, low: -(2 ** 31), high: 2 ** 31 - 1 },
  bigint: { array: BigInt64Array },
  float: { array: Float32Array },
  double: { array: Float64Array },
  date: { array: Int32Array },
  timestamp: { array: BigInt64Array },
  timestamp_ntz: { array: BigInt64Array },
};

/** The values of a column, `null` for NULL. Throws an `ApplyError` where the buffers are not those of such a column. */
export function decode(dataType, column, rows, name) {
  try {
    if (column.validity !== undefined) expect(column.validity.length >= Math.ceil(rows / 8));
    return read(dataType, column, rows);
  } catch (error) {
    // What was thrown may have a value in it.
    throw new ApplyError('malformed-input', `not a ${dataType} column of ${rows} rows`, { column: name });
  }
}

function read(dataType, column, rows) {
  const { validity, offsets, values } = column;
  const out = new Array(rows).fill(null);
  const each = (value) => {
    for (let row = 0; row < rows; row += 1) {
      if (bit(validity, row)) out[row] = value(row);
    }
    return out;
  };
  const kind = dataType.name;
  if (kind === 'string' || kind === 'binary') {
    expect(offsets.length === rows + 1 && offsets[0] === 0 && offsets[rows] <= values.length);
    if (kind === 'binary') return each((row) => values.slice(offsets[row], offsets[row + 1]));
    // One decoding, then slices: where there are as many characters as bytes, each is one byte.
    const text = DECODER.decode(values);
    if (text.length === values.length) return each((row) => text.slice(offsets[row], offsets[row + 1]));
    return each((row) => DECODER.decode(values.subarray(offsets[row], offsets[row + 1])));
  }
  if (kind === 'boolean') {
    expect(values.length >= Math.ceil(rows / 8));
    return each((row) => bit(values, row));
  }
  if (kind === 'decimal') {
    expect(values.length === rows * 16);
    const halves = view(BigInt64Array, values);
    return each((row) => {
      const unscaled = (halves[2 * row + 1] << 64n) | BigInt.asUintN(64, halves[2 * row]);
      return new Decimal(unscaled, dataType.scale);
    });
  }
  const { array } = FIXED[kind];
  expect(values.length === rows * array.BYTES_PER_ELEMENT);
  const numbers = view(array, values);
  if (kind === 'date') return each((row) => new Date(numbers[row] * DAY_MS));
  if (kind === 'timestamp' || kind === 'timestamp_ntz') return each((row) => new Timestamp(numbers[row]));
  return each((row) => numbers[row]);
}

/** A typed array over the bytes; over a copy of them where they do not stand on a multiple of its width. */
function view(array, bytes) {
  const width = array.BYTES_PER_ELEMENT;
  const aligned = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  return new array(aligned.buffer, aligned.byteOffset, aligned.byteLength / width);
}

/**
 * The buffers of a column of these values. Throws an `ApplyError` with the code `invalid-value` and the row where a value is not
 * one of the type; nothing is rounded or cut off.
 */
export function encode(dataType, values, name) {
  let row = 0;
  const each = (put) => {
    for (row = 0; row < values.length; row += 1) {
      if (!isNull(values[row])) put(row, values[row]);
    }
  };
  const validity = values.some(isNull) ? bitmap(values.length, (at) => !isNull(values[at])) : undefined;
  try {
    return write(dataType, values.length, validity, each);
  } catch (error) {
    if (error instanceof ApplyError) throw error;
    // Only the type is named: what was thrown may have a value in it.
    throw new ApplyError('invalid-value', `a value of ${name ?? 'a column'} is no ${dataType}`, { column: name, row });
  }
}

function isNull(value) {
  return value === null || value === undefined;
}

function write(dataType, rows, validity, each) {
  const kind = dataType.name;
  if (kind === 'string' || kind === 'binary') {
    if (kind === 'binary') return joined(rows, validity, each, (value) => expect(value instanceof Uint8Array) && value);
    return ascii(rows, validity, each) ?? joined(rows, validity, each, utf8);
  }
  if (kind === 'boolean') {
    const bits = new Uint8Array(Math.ceil(rows / 8));
    each((row, value) => {
      expect(typeof value === 'boolean');
      if (value) bits[row >> 3] |= 1 << (row & 7);
    });
    return new RawColumn(validity, new Int32Array(0), bits);
  }
  if (kind === 'decimal') {
    const halves = new BigInt64Array(rows * 2);
    const limit = 10n ** BigInt(dataType.precision);
    each((row, value) => {
      expect(value instanceof Decimal);
      const { unscaled } = value.rescale(dataType.scale);
      expect(unscaled < limit && unscaled > -limit);
      halves[2 * row] = BigInt.asIntN(64, unscaled);
      halves[2 * row + 1] = unscaled >> 64n;
    });
    return fixed(validity, halves);
  }
  const numbers = new FIXED[kind].array(rows);
  const number = NUMBERS[kind];
  each((row, value) => {
    numbers[row] = number(value);
  });
  return fixed(validity, numbers);
}

/** Texts whose characters are all one byte are encoded at once; `null` where they are not. */
function ascii(rows, validity, each) {
  const offsets = new Int32Array(rows + 1);
  const texts = new Array(rows).fill('');
  each((row, value) => {
    expect(typeof value === 'string');
    texts[row] = value;
  });
  let length = 0;
  for (let row = 0; row < rows; row += 1) {
    length += texts[row].length;
    if (length > LARGEST_OFFSET) return null;
    offsets[row + 1] = length;
  }
  // A text that JavaScript cannot hold takes the other way.
  if (length > LARGEST_TEXT) return null;
  const values = ENCODER.encode(texts.join(''));
  return values.length === length ? new RawColumn(validity, offsets, values) : null;
}

function joined(rows, validity, each, bytes) {
  const offsets = new Int32Array(rows + 1);
  const parts = new Array(rows).fill(null);
  each((row, value) => {
    parts[row] = bytes(value);
  });
  let length = 0;
  parts.forEach((part, row) => {
    length += part === null ? 0 : part.length;
    if (length > LARGEST_OFFSET) throw new ApplyError('too-large', 'a column of a batch has more than 2 GiB');
    offsets[row + 1] = length;
  });
  const values = new Uint8Array(length);
  parts.forEach((part, row) => {
    if (part !== null) values.set(part, offsets[row]);
  });
  return new RawColumn(validity, offsets, values);
}

function fixed(validity, numbers) {
  const values = new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  return new RawColumn(validity, new Int32Array(0), values);
}

function utf8(value) {
  // Half a surrogate pair has no bytes in UTF-8; the encoder would write U+FFFD in its place.
  expect(typeof value === 'string' && !LONE_SURROGATE.test(value));
  return ENCODER.encode(value);
}

const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

const NUMBERS = {
  smallint: (value) => whole(value, FIXED.smallint),
  int: (value) => whole(value, FIXED.int),
  bigint: (value) => big(value),
  float: (value) => {
    const single = Math.fround(real(value));
    expect(Number.isFinite(single) || !Number.isFinite(value));
    return single;
  },
  double: real,
  date: (value) => {
    expect(value instanceof Date && value.getTime() % DAY_MS === 0);
    return value.getTime() / DAY_MS;
  },
  timestamp: (value) => expect(value instanceof Timestamp) && big(value.micros),
  timestamp_ntz: (value) => expect(value instanceof Timestamp) && big(value.micros),
};

function whole(value, { low, high }) {
  expect(Number.isInteger(value) && value >= low && value <= high);
  return value;
}

function real(value) {
  expect(typeof value === 'number');
  return value;
}

function big(value) {
  expect(typeof value === 'bigint' && BigInt.asIntN(64, value) === value);
  return value;
}

function expect(holds) {
  if (!holds) throw new RangeError('not a value of the type');
  return true;
}

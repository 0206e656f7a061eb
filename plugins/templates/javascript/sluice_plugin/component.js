// The component's outside: between the bindings of the boundary and `shell.js`. Only `sluice plugin build` uses it: the modules
// `sluice:…` exist in a component alone.
import * as keyed from 'sluice:transform/keyed@0.3.0';
import { log as hostLog } from 'sluice:transform/log@0.3.0';
import * as lookup from 'sluice:transform/lookup@0.3.0';

import { RawColumn } from './columns.js';
import { ApplyError, Missing, OpenError, Unlisted, Unsupported } from './errors.js';
import { KeyedError, log, LookupFailed, setBackend } from './host.js';
import * as types from './plan.js';
import { applyTransform, exceptionCode, openTransform } from './shell.js';

const BY_TAG = {
  boolean: types.BOOLEAN,
  int16: types.INT16,
  int32: types.INT32,
  int64: types.INT64,
  float32: types.FLOAT32,
  float64: types.FLOAT64,
  date: types.DATE,
  timestamp: types.TIMESTAMP,
  'timestamp-ntz': types.TIMESTAMP_NTZ,
  utf8: types.STRING,
  binary: types.BINARY,
};
const TAGS = new Map(Object.entries(BY_TAG).map(([tag, type]) => [type, tag]));

/** What the component exports as `transform` for this class. */
export function exported(Transform) {
  let opened = null;
  return {
    open(table, config) {
      try {
        opened = openTransform(Transform, toTable(table), config);
        return fromPlan(opened.plan);
      } catch (error) {
        throw openError(Transform, error);
      }
    },
    apply(batch) {
      try {
        if (opened === null) throw new ApplyError('not-opened', 'apply was called before open');
        const raw = batch.columns.map(toColumn);
        return applyTransform(opened, batch.rows, own(Uint8Array, batch.operations), raw);
      } catch (error) {
        throw applyError(error);
      }
    },
  };
}

function toTable({ schema, name, captureInstance, fields }) {
  const columns = fields.map((field) => ({ ...field, dataType: toType(field.dataType), key: field.key ?? null }));
  return new types.Table(schema, name, captureInstance, columns);
}

function toType({ tag, val }) {
  return tag === 'decimal' ? types.decimal(val.precision, val.scale) : BY_TAG[tag];
}

function fromType(type) {
  if (type.name === 'decimal') return { tag: 'decimal', val: { precision: type.precision, scale: type.scale } };
  return { tag: TAGS.get(type) };
}

function fromPlan({ outputs, reads }) {
  return {
    reads,
    outputs: outputs.map(({ name, source, computed }) => ({
      name,
      source: computed
        ? { tag: 'computed', val: { ...computed, dataType: fromType(computed.dataType) } }
        : { tag: 'pass', val: source },
    })),
  };
}

/** The bindings live in a realm of their own: to `instanceof` of the transform, their arrays would be strangers. */
function own(array, foreign) {
  return new array(foreign.buffer, foreign.byteOffset, foreign.length);
}

function toColumn({ validity, offsets, values }) {
  const bits = validity === undefined || validity === null ? undefined : own(Uint8Array, validity);
  return new RawColumn(bits, own(Int32Array, offsets), own(Uint8Array, values));
}

function openError(Transform, error) {
  if (error instanceof Unlisted) return failure('unlisted', error.columns);
  if (error instanceof Missing) return failure('missing', error.columns);
  if (error instanceof Unsupported) return failure('unsupported', { column: error.column, reason: error.reason });
  if (error instanceof OpenError) return failure('config', { path: error.path ?? '', reason: error.reason ?? error.message });
  // A trap would say nothing; no row was seen, so this may.
  const reason = `open of ${Transform.name} threw ${error?.name}: ${error?.message}`;
  return failure('config', { path: '', reason });
}

/** A plain object, which the bindings take for the error; what is thrown as an `Error` would be a trap. */
function failure(tag, val) {
  return { tag, val };
}

function applyError(error) {
  if (error instanceof ApplyError) {
    const { code, column, row, message } = error;
    return { code, column: column ?? undefined, row: row ?? undefined, message };
  }
  // One that the transform did not mean. Its kind is shown; its text, which may have a value in it, goes where the host treats
  // it as sensitive.
  const message = `${error?.name}: ${error?.message}\n${error?.stack}`;
  log.error(message);
  return { code: exceptionCode(error), column: undefined, row: undefined, message };
}

function asking(call, refused) {
  try {
    return call();
  } catch (error) {
    throw refused((error?.payload ?? error)?.tag);
  }
}

function withKey(key, call) {
  return asking(call, (tag) => {
    if (tag === 'not-granted') return new KeyedError('key-not-granted', `the key \`${key}\` is not granted`);
    if (tag === 'argument') return new KeyedError('bad-argument', 'the alphabet, the count or the tweak is out of range');
    return new KeyedError('malformed-input', 'no column of text or binary');
  });
}

function inTable(table, column, call) {
  return asking(call, (tag) => {
    const of = `the reference table \`${table}\``;
    if (tag === 'not-granted') return new LookupFailed('lookup-not-granted', `${of} is not granted`);
    if (tag === 'unknown-column') return new LookupFailed('unknown-lookup-column', `${of} has no column \`${column}\``);
    return new LookupFailed('malformed-input', 'no column of text');
  });
}

setBackend({
  hmacSha256: (key, context, rows, column) =>
    withKey(key, () => own(Uint8Array, keyed.hmacSha256(key, context, rows, column))),
  ff1Encrypt: (key, tweak, alphabet, rows, column) =>
    withKey(key, () => {
      const { values, status } = keyed.ff1Encrypt(key, tweak, alphabet, rows, column);
      return { values: toColumn(values), status };
    }),
  pick: (key, context, count, rows, column) => withKey(key, () => keyed.pick(key, context, count, rows, column)),
  lookupColumns: (table) => inTable(table, '', () => lookup.columns(table)),
  find: (table, name, rows, column) => inTable(table, name, () => toColumn(lookup.find(table, name, rows, column))),
  log: (level, message) => hostLog(level, message),
});

// From the buffers of the boundary to a transform and back; the same in a component and in tests.
import { Batch } from './batch.js';
import { bitmap, encode } from './columns.js';
import { ApplyError, ConfigError } from './errors.js';
import { METADATA, Plan } from './plan.js';
import { Decimal, Timestamp } from './values.js';

/** Opens a transform with a configuration as JSON text. Answers what `applyTransform` needs. */
export function openTransform(Transform, table, config) {
  let settings;
  try {
    settings = JSON.parse(config);
  } catch (error) {
    throw new ConfigError('', `the configuration is no JSON: ${error.message}`);
  }
  if (settings === null || typeof settings !== 'object' || Array.isArray(settings)) {
    throw new ConfigError('', 'the configuration is no object');
  }
  const transform = new Transform();
  const plan = transform.open(table, settings);
  if (!(plan instanceof Plan)) throw new ConfigError('', `open of ${Transform.name} returned no Plan`);
  const known = new Set([...table.fields.map((field) => field.name), ...METADATA.keys()]);
  const unknown = plan.reads.filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new ConfigError('', `${Transform.name} reads columns that the table does not have: ${unknown.join(', ')}`);
  }
  return { transform, table, plan };
}

/** Applies it to a batch: the computed columns, the bitmap of dropped rows if there are any, the rejects. */
export function applyTransform({ transform, table, plan }, rows, operations, raw) {
  const batch = new Batch(table, plan, rows, operations, raw);
  const answer = transform.apply(batch) ?? {};
  const computed = plan.computed();
  const names = computed.map((output) => output.name).sort();
  const returned = Object.keys(answer).sort();
  if (JSON.stringify(names) !== JSON.stringify(returned)) {
    throw new ApplyError('wrong-columns', `apply returned [${returned}], and the plan computes [${names}]`);
  }
  const columns = computed.map(({ name, computed: what }) => {
    // A string is one value, although it could be gone through.
    if (typeof answer[name] === 'string') {
      throw new ApplyError('not-a-column', `${name} is one string, and a column is an array with one value a row`, { column: name });
    }
    let values = Array.isArray(answer[name]) ? answer[name] : Array.from(answer[name]);
    if (values.length !== rows) {
      const counted = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
      throw new ApplyError('wrong-length', `${counted(values.length, 'value')} for ${counted(rows, 'row')}`, { column: name });
    }
    if (!what.nullable) values = withoutNull(batch, name, what.dataType, values);
    return encode(what.dataType, values, name);
  });
  const dropped = batch.hasDropped ? bitmap(rows, (row) => batch.isDropped(row)) : undefined;
  return { columns, dropped, rejects: batch.rejects };
}

/** A column that cannot hold NULL may lack the values of rows of which nothing is written. */
function withoutNull(batch, name, dataType, values) {
  return values.map((value, row) => {
    if (value !== null && value !== undefined) return value;
    if (batch.isWithoutResult(row)) return NOTHING[dataType.name] ?? 0;
    throw new ApplyError('null-in-required-column', `${name} cannot hold NULL`, { column: name, row });
  });
}

/**
 * The code of what the transform threw without meaning to, which everybody may see: the kind of an error. Whatever else can be
 * thrown, such as a row, may have a value as its `name`.
 */
export function exceptionCode(error) {
  const kind = error instanceof Error ? String(error.name) : typeof error;
  const words = kind.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '-').toLowerCase();
  return `exception-${words.replace(/[^a-z0-9-]/g, '-')}`.slice(0, 64);
}

// Something of each type to stand where a row that is not written has no value.
const NOTHING = {
  boolean: false,
  bigint: 0n,
  decimal: new Decimal(0n, 0),
  date: new Date(0),
  timestamp: new Timestamp(0n),
  timestamp_ntz: new Timestamp(0n),
  string: '',
  binary: new Uint8Array(0),
};

// What a transform is opened for, and what it answers.
import { Missing } from './errors.js';

/**
 * The type of a column. What a value is in JavaScript (NULL is `null` in all of them):
 *
 * | type                         | value                                        |
 * | ---------------------------- | -------------------------------------------- |
 * | `BOOLEAN`                    | boolean                                      |
 * | `INT16`, `INT32`             | number                                       |
 * | `INT64`                      | BigInt                                       |
 * | `FLOAT32`, `FLOAT64`         | number                                       |
 * | `decimal(p, s)`              | `Decimal`                                    |
 * | `DATE`                       | `Date` at midnight UTC                       |
 * | `TIMESTAMP`, `TIMESTAMP_NTZ` | `Timestamp`                                  |
 * | `STRING`                     | string                                       |
 * | `BINARY`                     | `Uint8Array`                                 |
 */
class DataType {
  constructor(name, precision = 0, scale = 0) {
    this.name = name;
    this.precision = precision;
    this.scale = scale;
    Object.freeze(this);
  }

  toString() {
    return this.name === 'decimal' ? `decimal(${this.precision},${this.scale})` : this.name;
  }
}

export const BOOLEAN = new DataType('boolean');
export const INT16 = new DataType('smallint');
export const INT32 = new DataType('int');
export const INT64 = new DataType('bigint');
export const FLOAT32 = new DataType('float');
export const FLOAT64 = new DataType('double');
export const DATE = new DataType('date');
export const TIMESTAMP = new DataType('timestamp');
export const TIMESTAMP_NTZ = new DataType('timestamp_ntz');
export const STRING = new DataType('string');
export const BINARY = new DataType('binary');

/** A decimal of 1 to 38 digits, `scale` of them after the point. */
export function decimal(precision, scale) {
  if (!(precision >= 1 && precision <= 38 && scale >= 0 && scale <= precision)) {
    throw new RangeError(`decimal(${precision},${scale}) does not exist: 1 to 38 digits, at most all after the point`);
  }
  return new DataType('decimal', precision, scale);
}

/** The metadata columns, which can be read by name and never changed. */
export const METADATA = new Map([
  ['_capture_instance', STRING],
  ['_start_lsn', STRING],
  ['_seqval', STRING],
  ['_operation', INT32],
  ['_command_id', INT32],
  ['_commit_ts', TIMESTAMP_NTZ],
]);

/**
 * The table that a transform is opened for: `schema`, `name`, `captureInstance`, and `fields`, each with `name`, `dataType`,
 * `nullable`, `sourceType` (the declared SQL Server type) and `key` (position in the table's key from 1, else `null`).
 */
export class Table {
  constructor(schema, name, captureInstance, fields) {
    Object.assign(this, { schema, name, captureInstance, fields });
  }

  /** The column of this name: the exact one, else the only one that is equal ignoring case; `null` where there is none. */
  find(name) {
    const alike = this.fields.filter((field) => field.name.toLowerCase() === name.toLowerCase());
    return alike.find((field) => field.name === name) ?? (alike.length === 1 ? alike[0] : null);
  }

  /** The columns of these names; throws `Missing` with all that are not there. */
  select(names) {
    const found = names.map((name) => this.find(name));
    const missing = names.filter((_, index) => found[index] === null);
    if (missing.length > 0) throw new Missing(missing);
    return found;
  }
}

/** What comes out, in order, and what `apply` wants to see. An input column that no output names is dropped. */
export class Plan {
  constructor() {
    this.outputs = [];
    this.reads = [];
  }

  /** All columns of the table, untouched; then `compute` and `drop` change some. */
  static passing(table) {
    const plan = new Plan();
    for (const field of table.fields) plan.pass(field.name);
    return plan;
  }

  /** An input column that the host moves across untouched, perhaps under a new name. */
  pass(source, name = source) {
    this.#put({ name, source });
  }

  /**
   * A column that `apply` computes. It takes the place of the output column of the same name; else it stands after the output
   * column `after`, else at the end. `sources` are the input columns that it is made from: `apply` gets them, and `sluice
   * check` shows them. `how` says how, in a few words, and never a value. `keys` are the names of the keys that it is made with.
   */
  compute(name, dataType, { sources, how, nullable = true, keys = [], after }) {
    this.#put({ name, computed: { dataType, nullable, sources: [...sources], how, keys: [...keys] } }, after);
    this.read(...sources);
  }

  /** Takes an output column away. */
  drop(name) {
    this.outputs = this.outputs.filter((output) => output.name !== name);
  }

  /** Columns that `apply` wants to see besides the sources of computed columns, such as `_operation`. */
  read(...names) {
    for (const name of names) {
      if (!this.reads.includes(name)) this.reads.push(name);
    }
  }

  /** The output columns that are computed, in order. */
  computed() {
    return this.outputs.filter((output) => output.computed);
  }

  #put(output, after) {
    const at = this.outputs.findIndex((known) => known.name === output.name);
    const behind = this.outputs.findIndex((known) => known.name === after);
    if (at >= 0) this.outputs[at] = output;
    else if (behind >= 0) this.outputs.splice(behind + 1, 0, output);
    else this.outputs.push(output);
  }
}

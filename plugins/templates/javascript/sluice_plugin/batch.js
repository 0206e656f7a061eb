// The rows of one call.
import { decode } from './columns.js';
import { ApplyError } from './errors.js';
import { METADATA } from './plan.js';

/** What happened to a row. */
export const Operation = Object.freeze({ SNAPSHOT: 0, DELETE: 1, INSERT: 2, UPDATE_BEFORE: 3, UPDATE_AFTER: 4 });

/** The columns of `plan.reads`. `rows` is their length; `operations` has an `Operation` for each row. */
export class Batch {
  #raw = new Map();
  #decoded = new Map();
  #names;
  #rejects = new Map();
  #dropped = new Set();

  constructor(table, plan, rows, operations, raw) {
    if (raw.length !== plan.reads.length) {
      throw new ApplyError('malformed-input', 'the batch has not the columns that the plan reads');
    }
    this.rows = rows;
    this.operations = operations;
    const types = new Map(table.fields.map((field) => [field.name, field.dataType]));
    this.#names = new Set([...types.keys(), ...METADATA.keys()]);
    plan.reads.forEach((name, index) => {
      this.#raw.set(name, { dataType: types.get(name) ?? METADATA.get(name), column: raw[index] });
    });
  }

  /** The values of a column, one a row, `null` for NULL. Decoded when it is first asked for. */
  column(name) {
    if (!this.#decoded.has(name)) {
      const { dataType, column } = this.#of(name);
      this.#decoded.set(name, decode(dataType, column, this.rows, name));
    }
    return this.#decoded.get(name);
  }

  /** The column as the plain Arrow buffers that the host gave: the fastest way to hand it to `hashes` and its like. */
  raw(name) {
    return this.#of(name).column;
  }

  /**
   * This row cannot be transformed. `column` is the input column at fault; `code` is short: lower-case letters, digits and
   * hyphens, at most 64, and never a value. The first reject of a row counts.
   */
  reject(row, column, code) {
    this.#check(row);
    if (!/^[a-z0-9-]{1,64}$/.test(code)) {
      throw new RangeError('a code has 1 to 64 lower-case letters, digits and hyphens');
    }
    if (!this.#names.has(column)) {
      throw new RangeError(`the table has no column ${column}: a reject names the column that came in`);
    }
    if (!this.#rejects.has(row)) this.#rejects.set(row, { row, column, code });
  }

  /**
   * This row is not written. Where it is the row after an update, the host writes the row before it as a delete; where it is
   * the row before, the row after it becomes an insert.
   */
  drop(row) {
    this.#check(row);
    this.#dropped.add(row);
  }

  /** The rejected rows, in order. */
  get rejects() {
    return [...this.#rejects.values()].sort((a, b) => a.row - b.row);
  }

  /** Whether the row is dropped. */
  isDropped(row) {
    return this.#dropped.has(row);
  }

  /** Whether any row is dropped. */
  get hasDropped() {
    return this.#dropped.size > 0;
  }

  /** Whether nothing is written of this row. */
  isWithoutResult(row) {
    return this.#dropped.has(row) || this.#rejects.has(row);
  }

  #of(name) {
    const found = this.#raw.get(name);
    if (found === undefined) throw new RangeError(`column ${name} is not among the plan's reads`);
    return found;
  }

  #check(row) {
    if (!Number.isInteger(row) || row < 0 || row >= this.rows) {
      throw new RangeError(`the batch has ${this.rows} rows, counted from 0, and row ${row} is not one of them`);
    }
  }
}

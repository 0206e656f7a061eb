/**
 * Masks bank account numbers (IBAN): the country and the last digits stay, `CH93 0076 2011 6238 5295 7` becomes
 * `CH***************2957`. A column `iban_country` stands beside `iban`, and with a key a column `iban_token`: the keyed hash of
 * the number without blanks, by which rows with the same account can still be joined.
 */
import { hashHex, Plan, Settings, STRING, Unsupported } from './sluice_plugin/index.js';

/**
 * The configuration:
 *
 * | key         | meaning                                                                    |
 * | ----------- | -------------------------------------------------------------------------- |
 * | `columns`   | the columns with account numbers                                           |
 * | `keep_last` | characters at the end that stay, 0 to 4; 4 if not given                    |
 * | `invalid`   | a text that is no account number: `reject` the row (if not given), or `null` |
 * | `key`       | the key for the columns `…_token`; without it there are none               |
 */
export default class {{class_name}} {
  open(table, config) {
    const settings = new Settings(config);
    const names = settings.texts('columns');
    this.keepLast = settings.integer('keep_last', { low: 0, high: 4, default: 4 });
    this.invalid = settings.choice('invalid', ['reject', 'null'], { default: 'reject' });
    this.key = settings.text('key', { default: null });
    settings.finish();

    // Throws `Missing` with every name that the table does not have.
    const fields = table.select(names);
    this.columns = fields.map((field) => field.name);
    const plan = Plan.passing(table);
    for (const { name, dataType } of fields) {
      if (dataType !== STRING) throw new Unsupported(name, `it is ${dataType}, and account numbers are texts`);
      plan.compute(name, STRING, { sources: [name], how: 'account number, its middle masked' });
      add(plan, table, name, 'country', { how: 'country of the account number' });
      if (this.key !== null) add(plan, table, name, 'token', { how: 'keyed hash of the account number', keys: [this.key] });
    }
    return plan;
  }

  apply(batch) {
    const out = {};
    for (const name of this.columns) {
      const ibans = batch.column(name).map((text, row) => this.#normalised(batch, row, name, text));
      out[name] = ibans.map((iban) => iban && masked(iban, this.keepLast));
      out[`${name}_country`] = ibans.map((iban) => iban && iban.slice(0, 2));
      if (this.key !== null) out[`${name}_token`] = hashHex(this.key, ibans, { context: 'iban', length: 32 });
    }
    return out;
  }

  #normalised(batch, row, name, text) {
    if (text === null || text.trim() === '') return null;
    const iban = normalise(text);
    if (iban === null && this.invalid === 'reject') batch.reject(row, name, 'not-an-iban');
    return iban;
  }
}

function add(plan, table, source, suffix, what) {
  const name = `${source}_${suffix}`;
  if (table.find(name) !== null) throw new Unsupported(source, `the table has a column ${name} already`);
  plan.compute(name, STRING, { sources: [source], after: source, ...what });
}

/** The number in capitals and without blanks; `null` where it is no IBAN. */
export function normalise(text) {
  const iban = text.replace(/[\s-]/g, '').toUpperCase();
  return /^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$/.test(iban) && remainder(iban) === 1 ? iban : null;
}

/** The check of ISO 13616: the first four characters moved to the end, letters as 10 to 35, modulo 97. */
function remainder(iban) {
  const digits = (iban.slice(4) + iban.slice(0, 4)).replace(/[A-Z]/g, (letter) => letter.charCodeAt(0) - 55);
  let rest = '';
  // 12 digits at a time, behind at most 2 of the rest: far below the largest exact number.
  for (let at = 0; at < digits.length; at += 12) rest = String(Number(rest + digits.slice(at, at + 12)) % 97);
  return Number(rest);
}

/** The number with stars for all but the country and the last characters. */
export function masked(iban, keepLast) {
  const hidden = iban.length - 2 - keepLast;
  return iban.slice(0, 2) + '*'.repeat(hidden) + iban.slice(2 + hidden);
}

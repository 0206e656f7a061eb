/**
 * Writes transforms for sluice in JavaScript.
 *
 * A transform is a class with two methods. `open` gets the table and the configuration and says what comes out; `apply` gets
 * the columns that it asked for as arrays of values, and gives arrays back:
 *
 *     import { Plan, STRING } from './sluice_plugin/index.js';
 *
 *     export default class Shout {
 *       open(table, config) {
 *         const plan = Plan.passing(table);
 *         plan.compute('city', STRING, { sources: ['city'], how: 'upper case' });
 *         return plan;
 *       }
 *       apply(batch) {
 *         return { city: batch.column('city').map((city) => city?.toUpperCase() ?? null) };
 *       }
 *     }
 *
 * Everything here runs in Node too: `testing.js` calls a transform as the host would.
 */
export { Batch, Operation } from './batch.js';
export { RawColumn } from './columns.js';
export { Settings } from './config.js';
export { ApplyError, ConfigError, Missing, OpenError, Unlisted, Unsupported } from './errors.js';
export { encrypt, find, hashes, hashHex, KeyedError, log, lookupColumns, LookupFailed, pick } from './host.js';
export {
  BINARY,
  BOOLEAN,
  DATE,
  decimal,
  FLOAT32,
  FLOAT64,
  INT16,
  INT32,
  INT64,
  Plan,
  STRING,
  Table,
  TIMESTAMP,
  TIMESTAMP_NTZ,
} from './plan.js';
export { Decimal, Timestamp } from './values.js';

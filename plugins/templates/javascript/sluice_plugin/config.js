// Reading a configuration, with errors that say where and what was probably meant.
import { ConfigError } from './errors.js';

/** The nearest of the known words, if one is near enough to have been meant. */
export function nearest(word, known) {
  const distances = known.map((candidate) => [distance(word.toLowerCase(), candidate.toLowerCase()), candidate]);
  distances.sort((a, b) => a[0] - b[0]);
  const [best] = distances;
  return best !== undefined && best[0] <= Math.max(1, Math.floor(word.length / 3)) ? best[1] : undefined;
}

/** Levenshtein's distance. */
function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      next[j] = Math.min(next[j - 1] + 1, row[j] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length];
}

/**
 * One object of the configuration. Take each key out of it, then call `finish`, which refuses those that are left:
 *
 *     const settings = new Settings(config);
 *     const columns = settings.texts('columns');
 *     const keep = settings.integer('keep', { low: 0, high: 9, default: 2 });
 *     settings.finish();
 *
 * A key without a default must be there.
 */
export class Settings {
  #config;
  #path;
  #known = [];

  constructor(config, path = '') {
    if (config === null || typeof config !== 'object' || Array.isArray(config)) {
      throw new ConfigError(path, 'an object is expected');
    }
    this.#config = config;
    this.#path = path;
  }

  /** A text. */
  text(key, options = {}) {
    return this.#take(key, options, 'a text', (value) => typeof value === 'string');
  }

  /** A whole number from `low` to `high`. */
  integer(key, options) {
    const { low, high } = options;
    const fits = (value) => Number.isInteger(value) && value >= low && value <= high;
    return this.#take(key, options, `a whole number from ${low} to ${high}`, fits);
  }

  /** `true` or `false`. */
  flag(key, options = {}) {
    return this.#take(key, options, 'true or false', (value) => typeof value === 'boolean');
  }

  /** One of these words. */
  choice(key, words, options = {}) {
    const value = this.#take(key, options, 'a text', (given) => typeof given === 'string');
    if (words.includes(value) || !Object.hasOwn(this.#config, key)) return value;
    const meant = nearest(value, words);
    throw this.error(key, meant === undefined ? `known are ${words.join(', ')}` : `did you mean \`${meant}\`?`);
  }

  /** A list of texts, none of them twice. */
  texts(key, options = {}) {
    const fits = (value) => Array.isArray(value) && value.every((item) => typeof item === 'string');
    const value = this.#take(key, options, 'a list of texts', fits);
    const twice = value?.find((item, index) => value.indexOf(item) !== index);
    if (twice !== undefined) throw this.error(key, `\`${twice}\` stands here twice`);
    return value;
  }

  /** An object inside this one, as `Settings`; call its `finish` too. */
  section(key, options = {}) {
    const value = this.#take(key, options, 'an object', (given) => given !== null && typeof given === 'object');
    return Object.hasOwn(this.#config, key) ? new Settings(value, this.#at(key)) : value;
  }

  /** A mistake at a key of this object, to be thrown. */
  error(key, reason) {
    return new ConfigError(this.#at(key), reason);
  }

  /** Refuses keys that nobody took. */
  finish() {
    for (const key of Object.keys(this.#config)) {
      if (this.#known.includes(key)) continue;
      const meant = nearest(key, this.#known);
      const hint = meant === undefined ? `; known are ${this.#known.join(', ')}` : `, did you mean \`${meant}\`?`;
      throw new ConfigError(this.#path, `unknown key \`${key}\`${hint}`);
    }
  }

  #take(key, options, expected, fits) {
    this.#known.push(key);
    if (Object.hasOwn(this.#config, key)) {
      const value = this.#config[key];
      if (!fits(value)) throw this.error(key, `${expected} is expected`);
      return value;
    }
    if ('default' in options) return options.default;
    // A misspelt key explains a missing one better.
    const meant = nearest(key, Object.keys(this.#config).filter((other) => !this.#known.includes(other)));
    const hint = meant === undefined ? '' : `; is \`${meant}\` a misspelling of it?`;
    throw new ConfigError(this.#path, `\`${key}\` is missing${hint}`);
  }

  #at(key) {
    return this.#path ? `${this.#path}.${key}` : key;
  }
}

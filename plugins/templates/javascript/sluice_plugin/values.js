// Values that JavaScript has no type for.

const MICROS_PER_MILLI = 1000n;

/** An exact decimal number: `unscaled` (a BigInt) divided by 10 to the power of `scale`. */
export class Decimal {
  constructor(unscaled, scale) {
    this.unscaled = unscaled;
    this.scale = scale;
    Object.freeze(this);
  }

  /** Reads `-12.50`; throws a RangeError for anything else than digits with a sign and a point. */
  static parse(text) {
    const match = /^([+-]?)(\d+)(?:\.(\d+))?$/.exec(text);
    if (match === null) throw new RangeError('not a decimal number');
    const [, sign, whole, fraction = ''] = match;
    const unscaled = BigInt(whole + fraction);
    return new Decimal(sign === '-' ? -unscaled : unscaled, fraction.length);
  }

  /** The same number with `scale` digits after the point; throws a RangeError where digits would be lost. */
  rescale(scale) {
    if (scale >= this.scale) return new Decimal(this.unscaled * 10n ** BigInt(scale - this.scale), scale);
    const divisor = 10n ** BigInt(this.scale - scale);
    if (this.unscaled % divisor !== 0n) throw new RangeError('digits would be lost');
    return new Decimal(this.unscaled / divisor, scale);
  }

  /** The nearest floating-point number. */
  toNumber() {
    return Number(this.toString());
  }

  toString() {
    const digits = (this.unscaled < 0n ? -this.unscaled : this.unscaled).toString().padStart(this.scale + 1, '0');
    const sign = this.unscaled < 0n ? '-' : '';
    const point = digits.length - this.scale;
    return sign + digits.slice(0, point) + (this.scale > 0 ? `.${digits.slice(point)}` : '');
  }
}

/**
 * A moment to the microsecond, which `Date` does not have: `micros` (a BigInt) since 1970-01-01T00:00:00, in UTC for `TIMESTAMP`,
 * in no zone for `TIMESTAMP_NTZ`.
 */
export class Timestamp {
  constructor(micros) {
    this.micros = micros;
    Object.freeze(this);
  }

  static fromDate(date) {
    return new Timestamp(BigInt(date.getTime()) * MICROS_PER_MILLI);
  }

  /** The moment as a `Date`, cut to the millisecond; read its UTC fields. */
  toDate() {
    return new Date(Number(floorDiv(this.micros, MICROS_PER_MILLI)));
  }

  /** `2024-02-29T08:00:00.123456` */
  toString() {
    const rest = this.micros - floorDiv(this.micros, MICROS_PER_MILLI) * MICROS_PER_MILLI;
    return this.toDate().toISOString().slice(0, -1) + rest.toString().padStart(3, '0');
  }
}

function floorDiv(number, by) {
  const quotient = number / by;
  return number % by < 0n ? quotient - 1n : quotient;
}

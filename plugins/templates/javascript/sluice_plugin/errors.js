// What a transform throws. Never put a value of a row into any of them.

/** The transform cannot be opened; throw one of the classes below. */
export class OpenError extends Error {}

/** The configuration is wrong: where (a path such as `columns.phone.keep`; empty for the whole) and why. */
export class ConfigError extends OpenError {
  constructor(path, reason) {
    super(path ? `${path}: ${reason}` : reason);
    this.path = path;
    this.reason = reason;
  }
}

/** Columns that the configuration says nothing about, while it says that this is an error. */
export class Unlisted extends OpenError {
  constructor(columns) {
    super(`the configuration says nothing about ${columns.join(', ')}`);
    this.columns = columns;
  }
}

/** Columns that the configuration names and the table does not have. */
export class Missing extends OpenError {
  constructor(columns) {
    super(`the table has no column ${columns.join(', ')}`);
    this.columns = columns;
  }
}

/** The transform does not work on a column of this type. */
export class Unsupported extends OpenError {
  constructor(column, reason) {
    super(`column ${column}: ${reason}`);
    this.column = column;
    this.reason = reason;
  }
}

/**
 * The whole batch cannot be transformed. For a single row, call `batch.reject` instead. `code` is short: lower-case letters,
 * digits and hyphens, at most 64. `message` is for a developer; the host treats it as sensitive and does not show it.
 */
export class ApplyError extends Error {
  constructor(code, message = '', { column, row } = {}) {
    super(message);
    this.code = code;
    this.column = column;
    this.row = row;
  }
}

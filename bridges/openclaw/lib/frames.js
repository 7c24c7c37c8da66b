// One JSON value a line: what goes through the pipes between this plugin and Python.

/** A value as one line. What JSON cannot hold is turned into what it can: sets into lists, big integers into texts. */
export function encode(value) {
  return JSON.stringify(value, plain) + "\n";
}

function plain(_key, value) {
  if (typeof value === "bigint") return String(value);
  if (value instanceof Set) return [...value];
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof AbortSignal) return undefined;
  return value;
}

/** Cuts a stream of bytes into lines and calls `take` with each; a character may be split between two chunks. */
export class Lines {
  #pieces = [];

  constructor(take) {
    this.take = take;
  }

  push(chunk) {
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
      this.#pieces.push(chunk.subarray(start, end));
      const line = this.#pieces.length === 1 ? this.#pieces[0] : Buffer.concat(this.#pieces);
      this.#pieces = [];
      start = end + 1;
      if (line.length > 0) this.take(line.toString("utf8"));
    }
    if (start < chunk.length) this.#pieces.push(chunk.subarray(start));
  }
}

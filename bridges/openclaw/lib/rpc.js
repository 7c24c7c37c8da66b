// Calls to Python and back: one process of it, started when needed, replaced when it dies.
import { AsyncLocalStorage } from "node:async_hooks";
import { Child, environment } from "./child.js";

const START_MS = 30_000;
const CALL_MS = 60_000;
/** After so many failed starts in a row nothing is tried for a while. */
const PATIENCE = 3;
const REST_MS = 30_000;
const REPLAYS = 2;

/** Python is gone and this call's answer with it. */
export class Gone extends Error {}

/** An answer that is an error: Python's own words. */
export class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

/** Runs a function in the async context of the place where this was called: hosts check it. */
export function here() {
  return AsyncLocalStorage.snapshot();
}

export class Bridge {
  #child = null;
  #ready = null;
  #numbers = 0;
  #pending = new Map();
  #asked = new Map();
  #failures = 0;
  #restUntil = 0;
  #why = "";

  /** `host` answers what Python asks, by method; `hello` is what Python is told when it starts. */
  constructor({ python, env, hello, host, log }) {
    Object.assign(this, { python, env, hello, host, log });
    this.about = null;
    this.stopped = false;
  }

  get pid() {
    return this.#child?.pid ?? null;
  }

  /** Other settings hold from now on: the next call starts Python anew with them. */
  configure({ python, env, hello }) {
    const before = JSON.stringify([this.python, this.hello]);
    Object.assign(this, { python, env, hello });
    if (before !== JSON.stringify([python, hello])) {
      this.#failures = this.#restUntil = 0;
      this.#retire();
    }
  }

  /**
   * What Python answers. A call that died with its process is made again, unless `replay` is false: every method is
   * idempotent or carries a key. `open` is what Python may use of the host while this call is open.
   */
  async call(method, params, { signal, deadlineMs = CALL_MS, replay = true, open = {} } = {}) {
    const until = Date.now() + deadlineMs;
    const run = here();
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted();
      try {
        const child = await this.#started(Math.min(START_MS, until - Date.now()));
        return await this.#request(child, method, params, { signal, until, open: { ...open, run } });
      } catch (error) {
        if (!(error instanceof Gone) || !replay || attempt >= REPLAYS || Date.now() >= until) throw error;
      }
    }
  }

  /** Says good-bye to Python; the next call starts it again only if `forGood` is false. */
  async stop(forGood = true) {
    this.stopped = forGood;
    const child = this.#child;
    if (!child) return;
    try {
      await this.#request(child, "shutdown", {}, { until: Date.now() + 3000, open: {} });
    } catch {
      // it is gone already, or it is told to go now
    }
    this.#retire();
  }

  #retire() {
    const child = this.#child;
    this.#child = this.#ready = null;
    child?.stop();
  }

  async #started(ms) {
    if (this.stopped) throw new Error("the gateway is stopping");
    if (Date.now() < this.#restUntil) throw new Error(this.#why);
    this.#ready ??= this.#start();
    return withTime(this.#ready, ms, "Python did not start in time");
  }

  async #start() {
    const child = new Child(this.python, environment(this.env), {
      onFrame: (frame) => this.#take(child, frame),
      onLog: (line) => this.log.warn?.(`[lossless] ${line}`),
      onEnd: (reason) => this.#ended(child, reason),
    });
    this.#child = child;
    try {
      this.about = await this.#request(child, "initialize", this.hello, { until: Date.now() + START_MS, open: {} });
    } catch (error) {
      this.#failedToStart(child, error);
      throw error instanceof Gone && child.fatal ? new Error(child.fatal) : error;
    }
    this.#failures = 0;
    for (const warning of this.about.warnings ?? []) this.log.warn?.(`[lossless] ${warning}`);
    return child;
  }

  #failedToStart(child, error) {
    this.#why = child.gone ?? error.message;
    this.#failures++;
    if (this.#failures >= PATIENCE || child.fatal || error instanceof Refused) this.#restUntil = Date.now() + REST_MS;
    this.log.error?.(`[lossless] ${this.#why}. Until then nothing is stored and the context stays as the host has it.`);
    if (this.#child === child) this.#retire();
    else child.stop();
  }

  #ended(child, reason) {
    if (this.#child === child) {
      this.#child = this.#ready = null;
      if (!this.stopped) this.log.warn?.(`[lossless] ${reason}`);
    }
    for (const call of [...this.#pending.values()]) if (call.child === child) call.reject(new Gone(reason));
  }

  #request(child, method, params, { signal, until, open }) {
    const id = ++this.#numbers;
    return new Promise((resolve, reject) => {
      const left = Math.max(1, until - Date.now());
      const cancel = (error) => {
        child.send({ jsonrpc: "2.0", method: "$/cancel", params: { id } });
        done(reject)(error);
      };
      const onAbort = () => cancel(signal.reason ?? new Error("cancelled"));
      const timer = setTimeout(() => cancel(new Error(`${method} took longer than ${left} ms`)), left);
      const done = (settle) => (value) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#pending.delete(id);
        if (![...this.#pending.values()].some((call) => call.child === child)) child.unref();
        settle(value);
      };
      this.#pending.set(id, { child, open, resolve: done(resolve), reject: done(reject) });
      if (child.gone) {
        done(reject)(new Gone(child.gone));
        return;
      }
      signal?.addEventListener("abort", onAbort, { once: true });
      child.ref();
      try {
        child.send({ jsonrpc: "2.0", id, method, params: { ...params, deadlineMs: left } });
      } catch (error) {
        done(reject)(error);
      }
    });
  }

  #take(child, frame) {
    if (frame?.method === "$/cancel") this.#asked.get(frame.params?.id)?.abort();
    else if (frame?.method) void this.#answer(child, frame);
    else {
      const call = this.#pending.get(frame?.id);
      if (!call) return;
      if (frame.error) call.reject(new Refused(frame.error.message, frame.error.data?.code));
      else call.resolve(frame.result);
    }
  }

  /** What Python asks of the host, in the async context of the call that it is working on. */
  async #answer(child, { id, method, params }) {
    const open = this.#pending.get(params?.call)?.open;
    const abort = new AbortController();
    this.#asked.set(id, abort);
    try {
      const answer = this.host[method];
      if (!answer) throw new Error(`there is no ${method}`);
      const result = await answer(params, open, abort.signal);
      child.send({ jsonrpc: "2.0", id, result: result ?? null });
    } catch (error) {
      const data = { name: String(error?.name ?? ""), code: String(error?.code ?? "") };
      child.send({ jsonrpc: "2.0", id, error: { code: -32000, message: String(error?.message ?? error), data } });
    } finally {
      this.#asked.delete(id);
    }
  }
}

function withTime(promise, ms, text) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(text)), Math.max(1, ms));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

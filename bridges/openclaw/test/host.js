// A host for tests: what OpenClaw gives a plugin, as far as this one uses it, with a real Python behind it.
import { AsyncLocalStorage } from "node:async_hooks";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const PYTHON = process.env.LCM_PYTHON ?? "python3";
const SHARED = Symbol.for("lossless.openclaw.bridge");
/** What hosts check before they let a plugin use their model. */
export const scope = new AsyncLocalStorage();

/** A folder for one test, and an `api` on it. `host.close()` ends everything. */
export async function makeHost({ config = {}, python = PYTHON, version = "2026.9.6", state, llm, subagent, mode = "full" } = {}) {
  const folder = state ?? mkdtempSync(join(tmpdir(), "lossless-plugin-"));
  const host = { folder, hooks: {}, tools: {}, commands: {}, actions: {}, said: [], asked: [], engine: null };
  const note = (level) => (text) => host.said.push(`${level}: ${text}`);
  host.complete = llm ?? (async (request) => {
    host.asked.push({ ...request, inScope: scope.getStore() });
    return { text: `A short note ${host.asked.length}.`, provider: "fake", model: "fake-1", usage: { inputTokens: 9, outputTokens: 3 } };
  });
  const pluginConfig = { python, independentLogFile: { enabled: false }, ...config };
  host.api = {
    registrationMode: mode,
    pluginConfig,
    config: { plugins: { slots: { contextEngine: "lossless" }, entries: { lossless: { config: pluginConfig, hooks: { allowConversationAccess: true } } } } },
    logger: { info: note("info"), warn: note("warn"), error: note("error") },
    runtime: { version, llm: { complete: (request) => host.complete(request) }, subagent, state: { resolveStateDir: () => folder } },
    on: (name, handler) => (host.hooks[name] = handler),
    registerTool: (make, { name }) => (host.tools[name] = make),
    registerCommand: (command) => (host.commands[command.name] = command),
    registerSessionAction: (action) => (host.actions[action.id] = action),
    registerContextEngine: (id, make) => (host.engine = make({})),
  };
  const plugin = (await import("../index.js")).default;
  host.register = () => scope.run("registered", () => plugin.register(host.api));
  host.register();
  host.bridge = () => globalThis[SHARED]?.bridge;
  host.close = async ({ keep = false } = {}) => {
    await host.bridge()?.stop();
    delete globalThis[SHARED];
    if (!keep) rmSync(folder, { recursive: true, force: true });
  };
  return host;
}

export const SESSION = { sessionKey: "agent:main:main", sessionId: "run-1" };

export function user(text) {
  return { role: "user", content: text, timestamp: 1 };
}

export function reply(text, more = {}) {
  return { role: "assistant", content: [{ type: "text", text }], provider: "fake", api: "x", model: "fake-1", stopReason: "stop", timestamp: 2, ...more };
}

/** A turn as OpenClaw from 2026.7.2 hands it over. */
export function turn(number, { words = 40, tokenBudget = 128_000 } = {}) {
  const filler = `fact-${number} `.repeat(words);
  return {
    ...SESSION,
    advancementKey: `turn-${number}`,
    messages: [user(`question ${number}: ${filler}`), reply(`answer ${number}: ${filler}`)],
    runtimeContext: { tokenBudget, provider: "fake", modelId: "fake-1" },
  };
}

export async function commitMany(engine, count, more) {
  for (let number = 1; number <= count; number++) await engine.commitTurn(turn(number, more));
}

export async function until(condition, ms = 60_000) {
  for (const end = Date.now() + ms; Date.now() < end; ) {
    if (await condition()) return;
    await new Promise((go) => setTimeout(go, 20));
  }
  throw new Error("it did not come about in time");
}

export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export const SMALL = { freshTailCount: 4, leafChunkTokens: 600, maxAssemblyTokenBudget: 3000 };

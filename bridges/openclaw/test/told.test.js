// What of the host's parameters reaches Python, with which time limits, and what a host must be able to do.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isCaptureOnly } from "../lib/config.js";
import { engineFactory } from "../lib/engine.js";
import { SESSION, makeHost, user } from "./host.js";

/** An engine whose calls are remembered instead of made. */
function remembered(more = {}) {
  const calls = [];
  const bridge = {
    call: async (method, params, options = {}) => {
      calls.push({ method, params: JSON.parse(JSON.stringify(params)), options });
      return method === "assemble" ? { messages: [], liveFrom: 0, estimatedTokens: 0 } : { ok: true, status: "committed" };
    },
  };
  const engine = engineFactory(bridge, { id: "lossless", version: "0", config: () => ({}), log: {}, importer: async () => ({}), ...more })();
  return { calls, engine };
}

/** As hosts fill it: what is big or secret in it stays there. */
const CONTEXT = {
  provider: "anthropic", modelId: "claude-x", modelContextWindow: 200_000, tokenBudget: 100_000,
  config: { secret: "sk-1" }, skillsSnapshot: { big: "x".repeat(9000) }, sessionEntry: { authProfile: "sk-2" },
};
const SETTINGS = { model: { resolved: "claude-y", provider: "anthropic" }, executionHost: { id: "openclaw-embedded" }, limits: { promptTokenBudget: 64_000 } };

describe("Python is told", () => {
  it("the model, its window, the budget and who frames the prompt, and nothing that it need not know", async () => {
    const { calls, engine } = remembered();
    await engine.commitTurn({ ...SESSION, advancementKey: "k", messages: [user("a")], isHeartbeat: true, runtimeContext: CONTEXT });
    await engine.assemble({ ...SESSION, messages: [], model: "claude-y", tokenBudget: 9, runtimeSettings: SETTINGS });
    await engine.maintain({ ...SESSION, runtimeContext: { ...CONTEXT, allowDeferredCompactionExecution: true } });
    const [turn, prompt, rest] = calls.map((call) => call.params);
    assert.deepEqual(
      [turn.model, turn.contextWindow, turn.tokenBudget, turn.isHeartbeat, turn.hostFrames],
      ["anthropic/claude-x", 200_000, 100_000, true, false],
    );
    assert.deepEqual([prompt.model, prompt.promptBudget, prompt.tokenBudget, prompt.hostFrames], ["anthropic/claude-y", 64_000, 9, true]);
    assert.equal(rest.allowDeferredCompactionExecution, true);
    assert.ok(JSON.stringify(calls.map((call) => call.params)).length < 2000);
    assert.doesNotMatch(JSON.stringify(calls), /sk-[12]|xxxx/);
  });

  it("what an older host says after a turn: only what is new, and that it was a heartbeat", async () => {
    const { calls, engine } = remembered();
    const window = [user("<summary>ours</summary>"), user("hi")];
    await engine.afterTurn({ ...SESSION, messages: window, prePromptMessageCount: 1, isHeartbeat: true, runtimeContext: { provider: "a", model: "b", currentTokenCount: 7 } });
    await engine.ingest({ ...SESSION, message: user("x"), isHeartbeat: true });
    await engine.ingestBatch({ ...SESSION, messages: [user("y")] });
    assert.deepEqual(calls[0].params.messages, [window[1]]);
    assert.deepEqual([calls[0].params.model, calls[0].params.currentTokenCount], ["a/b", 7]);
    assert.deepEqual(calls.map((call) => call.params.isHeartbeat), [true, true, false]);
  });

  it("what to keep when it compacts, who wants it, and how much time it has", async () => {
    const { calls, engine } = remembered({ config: () => ({ agents: { defaults: { compaction: { timeoutSeconds: 30 } } } }) });
    const abort = new AbortController();
    await engine.compact({ ...SESSION, tokenBudget: 9, force: true, customInstructions: "Keep ports.", currentTokenCount: 8, runtimeContext: { trigger: "manual" }, abortSignal: abort.signal });
    await engine.compact({ ...SESSION, tokenBudget: 9, force: true, compactionTarget: "budget", runtimeContext: { trigger: "overflow" } });
    const [manual, overflow] = calls;
    assert.deepEqual([manual.params.customInstructions, manual.params.manual, manual.params.currentTokenCount], ["Keep ports.", true, 8]);
    assert.deepEqual([overflow.params.manual, overflow.params.compactionTarget], [false, "budget"]);
    assert.equal(overflow.params.trigger, "overflow");
    assert.equal(manual.options.deadlineMs, 25_000);
    assert.equal(manual.options.signal, abort.signal);
  });

  it("that nobody waits any more, whatever it is doing", async () => {
    const host = await makeHost({});
    const { signal } = Object.assign(new AbortController(), {});
    const gone = AbortSignal.abort(new Error("enough"));
    assert.equal((await host.engine.bootstrap({ ...SESSION, abortSignal: gone })).bootstrapped, false);
    assert.equal(await host.engine.afterTurn({ ...SESSION, messages: [user("x")], abortSignal: gone }), undefined);
    await assert.rejects(host.engine.commitTurn({ ...SESSION, advancementKey: "k", messages: [user("x")], abortSignal: gone }), /enough/);
    assert.equal((await host.engine.bootstrap({ ...SESSION, abortSignal: signal })).bootstrapped, true);
    await host.close();
  });
});

describe("a host", () => {
  it("must keep turns apart, and ask for prompts unless storing is all that is wanted", () => {
    const { info } = remembered().engine;
    assert.equal(info.ownsCompaction, true);
    assert.deepEqual(Object.values(info.transcriptSemantics), ["before-current-turn-entry-v1", "atomic-idempotent-v1"]);
    const run = info.hostRequirements["agent-run"];
    assert.deepEqual(run.requiredCapabilities, ["bootstrap", "after-turn", "maintain", "assemble-before-prompt", "compact"]);
    assert.match(run.unsupportedMessage, /hostFallbackMode to "capture-only"/);
    const less = remembered({ captureOnly: () => true }).engine.info.hostRequirements["agent-run"];
    assert.deepEqual(less.requiredCapabilities, ["bootstrap", "after-turn", "maintain"]);
    assert.match(less.unsupportedMessage, /contextEngine to "legacy"/);
  });

  it("is told so by the setting, or by the variable, which goes first", () => {
    assert.equal(isCaptureOnly({ hostFallbackMode: "capture-only" }, {}), true);
    assert.equal(isCaptureOnly({}, { LCM_HOST_FALLBACK_MODE: "capture-only" }), true);
    assert.equal(isCaptureOnly({ hostFallbackMode: "capture-only" }, { LCM_HOST_FALLBACK_MODE: "error" }), false);
    assert.equal(isCaptureOnly({}, {}), false);
  });
});

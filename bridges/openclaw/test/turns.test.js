// What the host tells and what it gets back: nothing lost, nothing twice, nothing thrown.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { SESSION, SMALL, commitMany, makeHost, reply, scope, turn, until, user } from "./host.js";

/** Nothing is folded before it is asked for. */
const ROOMY = { ...SMALL, maxAssemblyTokenBudget: 60_000 };

describe("turns", () => {
  let host;
  before(async () => (host = await makeHost({ config: ROOMY })));
  after(() => host.close());

  it("is stored once for each key, also when Python dies in between", async () => {
    assert.deepEqual(await host.engine.commitTurn(turn(1)), { status: "committed" });
    assert.deepEqual(await host.engine.commitTurn(turn(1)), { status: "duplicate" });
    process.kill(host.bridge().pid, "SIGKILL");
    assert.deepEqual(await host.engine.commitTurn(turn(1)), { status: "duplicate" });
    const pending = host.engine.commitTurn(turn(2));
    process.kill(host.bridge().pid, "SIGKILL");
    assert.match((await pending).status, /committed|duplicate/);
    assert.deepEqual(await host.engine.commitTurn(turn(2)), { status: "duplicate" });
    const { messageCount } = (await host.actions["lcm-control"].handler({ ...SESSION })).result;
    assert.equal(messageCount, 4);
  });

  it("assembles the same from its own output, and keeps the host's own messages as they are", async () => {
    await commitMany(host.engine, 12);
    const folded = await host.engine.compact({ ...SESSION, tokenBudget: 3000, force: true });
    assert.ok(folded.ok && folded.compacted, JSON.stringify(folded));
    const params = { ...SESSION, prompt: "next", availableTools: new Set(["exec"]), tokenBudget: 4000 };
    const first = await host.engine.assemble({ ...params, messages: turn(12).messages });
    const summaries = (made) => made.messages.filter((m) => String(m.content).startsWith("<summary id="));
    assert.ok(summaries(first).length > 0);
    const second = await host.engine.assemble({ ...params, messages: first.messages, tokenBudget: 128_000 });
    assert.deepEqual(second.messages, first.messages);
    const live = { ...user("just said"), __openclaw: { kept: true }, thinkingSignature: "s\ud800" };
    const third = await host.engine.assemble({ ...params, messages: [...first.messages, live] });
    assert.equal(third.messages.at(-1), live);
    assert.equal(summaries(third).length, new Set(summaries(third).map((m) => m.content)).size);
    assert.ok(first.estimatedTokens > 0 && first.contextProjection.epoch);
  });

  it("takes what JSON cannot hold, and brings half a surrogate pair through the pipes and back", async () => {
    const odd = { ...reply("half \ud800 pair"), big: 2n ** 60n, when: new Date(0), gone: undefined, tools: new Set([1]) };
    const echo = await host.bridge().call("ping", { messages: [odd, "\u2028\ud83d\ude00"] });
    const { gone: _gone, ...kept } = odd;
    assert.deepEqual(echo.messages, [{ ...kept, big: String(odd.big), when: odd.when.toISOString(), tools: [1] }, "\u2028\ud83d\ude00"]);
    const params = { ...SESSION, sessionKey: "agent:main:odd", advancementKey: "odd", messages: [user("odd"), odd] };
    assert.deepEqual(await host.engine.commitTurn(params), { status: "committed" });
    const made = await host.engine.assemble({ ...SESSION, sessionKey: "agent:main:odd", prompt: "x", messages: [], tokenBudget: 9000 });
    const back = made.messages.find((m) => m.role === "assistant");
    assert.equal(back.content[0].text, "half \ufffd pair");
    assert.equal(back.big, String(2n ** 60n));
    assert.deepEqual(back.tools, [1]);
  });

  it("stores parts of a turn as older hosts hand them over", async () => {
    const session = { sessionKey: "agent:main:older", sessionId: "run-7", sessionFile: `${host.folder}/run-7.jsonl` };
    const window = [user("<summary>not ours</summary>"), user("one")];
    await host.engine.afterTurn({ ...session, messages: window, prePromptMessageCount: 1, tokenBudget: 9000 });
    window.push(reply("two"));
    await host.engine.afterTurn({ ...session, messages: window, prePromptMessageCount: 2, tokenBudget: 9000 });
    const { messageCount } = (await host.actions["lcm-control"].handler({ sessionKey: "agent:main:older" })).result;
    assert.equal(messageCount, 2);
    assert.deepEqual(await host.engine.ingest({ ...session, message: user("three") }), { ingested: true });
    assert.deepEqual(await host.engine.ingestBatch({ ...session, messages: [reply("4"), user("5")] }), { ingestedCount: 2 });
  });

  it("asks no model in maintain unless the host allows it", async () => {
    const session = { sessionKey: "agent:main:owing", sessionId: "run-9" };
    for (let n = 1; n <= 10; n++) await host.engine.commitTurn({ ...turn(n), ...session, advancementKey: `owing-${n}` });
    let calls = 0;
    const own = { llm: { complete: async () => (calls++, { text: "A note.", provider: "fake", model: "fake-1" }) } };
    const asked = host.asked.length;
    const quiet = await host.engine.maintain({ ...session, runtimeContext: { ...own, tokenBudget: 3000 } });
    assert.deepEqual(quiet, { changed: false, bytesFreed: 0, rewrittenEntries: 0 });
    assert.deepEqual([calls, host.asked.length], [0, asked]);
  });

  it("begins afresh after /new and /reset, and still finds what was said before", async () => {
    const session = { sessionKey: "agent:main:fresh", sessionId: "run-3" };
    const say = (n) => host.engine.commitTurn({ ...turn(n), ...session, advancementKey: `fresh-${n}` });
    await say(1);
    await host.hooks.before_reset({ reason: "new" }, session);
    const emptied = await host.engine.assemble({ ...session, prompt: "x", messages: [], tokenBudget: 9000 });
    assert.deepEqual(emptied.messages, []);
    await say(2);
    await host.hooks.before_reset({ reason: "reset" }, session);
    await host.hooks.session_end({ ...session, reason: "reset", nextSessionId: "run-4" }, session);
    await say(3);
    assert.equal((await host.actions["lcm-control"].handler(session)).result.messageCount, 2);
    const found = await host.tools.lcm_grep(session).execute("t", { pattern: "question 1", mode: "regex" });
    assert.match(found.content[0].text, /question 1/);
  });
});

describe("the host's model", () => {
  it("is asked in the async context of the call, and later on in that of the registration", async () => {
    const host = await makeHost({ config: SMALL });
    try {
      const seen = [];
      const llm = { complete: async () => (seen.push(scope.getStore()), { text: "Noted.", provider: "fake", model: "m" }) };
      await commitMany(host.engine, 30);
      const compact = () => host.engine.compact({ ...SESSION, tokenBudget: 3000, force: true, runtimeContext: { llm } });
      const done = await scope.run("the call", compact);
      assert.equal(done.ok, true);
      for (let n = 30; n < 60 && host.asked.length === 0; n++) await host.engine.commitTurn(turn(n));
      await until(() => host.asked.length > 0);
      assert.deepEqual([...new Set(seen)].filter((name) => name !== "the call"), []);
      assert.deepEqual([...new Set(host.asked.map((one) => one.inScope))], ["registered"]);
    } finally {
      await host.close();
    }
  });

  it("that cannot be reached leaves a fold without it, and says so nowhere in the host", async () => {
    const refuse = async () => {
      throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    };
    const host = await makeHost({ config: ROOMY, llm: refuse });
    try {
      await commitMany(host.engine, 30);
      const done = await host.engine.compact({ ...SESSION, tokenBudget: 3000, force: true, runtimeContext: { llm: { complete: refuse } } });
      assert.equal(done.ok, true);
      assert.equal(done.compacted, true, JSON.stringify(done));
    } finally {
      await host.close();
    }
  });

  it("that hangs holds up no other call, and a cancelled call ends at once", async () => {
    const host = await makeHost({ config: ROOMY });
    try {
      await commitMany(host.engine, 30);
      let asked = 0;
      const hanging = { complete: ({ signal }) => (asked++, new Promise((_, no) => signal.addEventListener("abort", () => no(new Error("aborted"))))) };
      const abort = new AbortController();
      const folding = host.engine.compact({ ...SESSION, tokenBudget: 3000, force: true, runtimeContext: { llm: hanging }, abortSignal: abort.signal });
      await until(() => asked > 0);
      const made = await host.engine.assemble({ ...SESSION, prompt: "x", messages: [], tokenBudget: 9000 });
      assert.ok(made.messages.length > 0);
      assert.deepEqual(await host.engine.commitTurn(turn(99)), { status: "committed" });
      abort.abort(new Error("the user has had enough"));
      const done = await folding;
      assert.equal(done.ok, false);
      assert.match(done.reason, /enough/);
    } finally {
      await host.close();
    }
  });
});

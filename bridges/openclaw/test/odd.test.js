// Whatever a host hands over, nothing is thrown at it.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { SESSION, makeHost, user } from "./host.js";

const METHODS = ["bootstrap", "maintain", "assemble", "compact", "ingest", "ingestBatch", "afterTurn", "prepareSubagentSpawn", "onSubagentEnded", "dispose"];

function circular() {
  const message = user("round and round");
  message.self = message;
  return message;
}

const trap = (name) => ({ role: "user", get [name]() { throw new Error("a trap"); } });
const ODD = {
  "a circle": [circular()],
  "a getter that throws": [trap("content")],
  "a getter that throws nothing": [{ role: "user", get content() { throw null; } }],
  "a big integer": [{ ...user("b"), count: 10n }],
  "a function and a symbol": [{ role: "user", content: Symbol("x"), go() {} }],
  "a hole and a null": [, null],
  "a proxy that is gone": [(() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; })()],
};

describe("the engine", () => {
  let host;
  before(async () => (host = await makeHost({})));
  after(() => host.close());

  for (const params of [undefined, null, {}, 7, "x", { messages: "x" }, trap("messages"), trap("abortSignal"), trap("sessionKey"), trap("runtimeContext")]) {
    it(`takes ${params && typeof params === "object" ? JSON.stringify(Object.keys(params)) : params} for parameters`, async () => {
      for (const name of METHODS) await host.engine[name](params);
      assert.ok(Array.isArray((await host.engine.assemble(params)).messages));
      const turn = host.engine.commitTurn(params);
      await assert.rejects(turn);
    });
  }

  for (const [name, messages] of Object.entries(ODD)) {
    it(`takes messages with ${name}`, async () => {
      const params = { ...SESSION, sessionKey: `agent:main:${name}`, messages, message: messages[0], tokenBudget: 9000, prePromptMessageCount: 0 };
      for (const method of METHODS) await host.engine[method](params);
      const made = await host.engine.assemble(params);
      assert.ok(Array.isArray(made.messages) && Number.isInteger(made.estimatedTokens));
    });
  }

  it("leaves the host its own messages, and says how long they are", async () => {
    const messages = [user("one"), circular(), trap("content")];
    const made = await host.engine.assemble({ ...SESSION, messages, tokenBudget: 9000 });
    assert.equal(made.messages.length, 3);
    assert.ok(made.messages.every((message, at) => message === messages[at]));
    assert.ok(made.estimatedTokens >= 10 && made.estimatedTokens < 100);
    assert.equal(made.promptAuthority, "preassembly_may_overflow");
  });

  it("survives a log that throws", async () => {
    const { warn } = host.api.logger;
    host.api.logger.warn = () => { throw new Error("no log"); };
    assert.equal((await host.engine.ingest({ ...SESSION, message: circular() })).ingested, false);
    host.api.logger.warn = warn;
  });
});

describe("hooks, tools and commands", () => {
  it("take nothing for an answer, too", async () => {
    const host = await makeHost({});
    for (const name of ["before_reset", "session_end", "gateway_start", "before_prompt_build"]) await host.hooks[name](null, null);
    assert.match((await host.commands.lossless.handler(null)).text, /needs a session/);
    assert.equal((await host.actions["lcm-control"].handler(null)).ok, false);
    for (const make of Object.values(host.tools)) assert.ok((await make(null).execute("t", null)).content);
    await host.close();
  });
});

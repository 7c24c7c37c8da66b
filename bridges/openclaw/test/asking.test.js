// What Python asks of the host, and what agents and people ask of Python.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { engineFactory } from "../lib/engine.js";
import { answers } from "../lib/host.js";
import { Bridge } from "../lib/rpc.js";
import { PYTHON, SESSION, SMALL, commitMany, makeHost, reply, turn, user } from "./host.js";

const JSON_ANSWER = JSON.stringify({ answer: "It was fact-1.", citedIds: [], expandedSummaryCount: 1, totalSourceTokens: 5, truncated: false });

/** Sub-agents that answer with `text`, and remember what was asked of them. */
function agents(text, seen) {
  return {
    run: async (task) => (seen.push(["run", task]), { runId: "r1" }),
    waitForRun: async ({ runId }) => ({ runId, status: "ok" }),
    getSessionMessages: async () => ({ messages: [user("task"), reply(text)] }),
    deleteSession: async (which) => void seen.push(["delete", which]),
  };
}

async function folded(options) {
  const host = await makeHost({ config: SMALL, ...options });
  await commitMany(host.engine, 10);
  await host.engine.compact({ ...SESSION, tokenBudget: 3000, force: true });
  return host;
}

describe("tools", () => {
  const seen = [];
  let host;
  before(async () => (host = await folded({ subagent: agents(JSON_ANSWER, seen) })));
  after(() => host.close());
  const use = (name, args, session = SESSION) => host.tools[name](session).execute("t", args);

  it("find, open and recall what was said", async () => {
    assert.match((await use("lcm_grep", { pattern: "question 2:" })).content[0].text, /question 2/);
    assert.match((await use("lcm_describe", { id: "msg#1" })).content[0].text, /question 1/);
    assert.match((await use("lcm_recall", { question: "what was fact-3?" })).content[0].text, /fact-3/);
  });

  it("are refused to a main agent where sub-agents should read", async () => {
    const refused = await use("lcm_expand", { query: "fact-1" });
    assert.equal(refused.details.errorCode, "SUBAGENTS_ONLY");
  });

  it("have a question read by a sub-agent, whose session is removed", async () => {
    const found = await use("lcm_expand_query", { prompt: "Which fact?", query: "fact", timeoutMs: 20_000 });
    assert.equal(found.details.answer, "It was fact-1.");
    const [[, task]] = seen;
    assert.match(task.sessionKey, /^agent:main:subagent:/);
    assert.equal(task.deliver, false);
    assert.deepEqual(seen.at(-1), ["delete", { sessionKey: task.sessionKey }]);
  });

  it("are granted to sub-agents of the host's own, and taken back", async () => {
    const child = "agent:main:subagent:7";
    const { rollback } = await host.engine.prepareSubagentSpawn({ parentSessionKey: SESSION.sessionKey, childSessionKey: child });
    const as = { sessionKey: child, sessionId: "c" };
    assert.notEqual((await use("lcm_expand", { query: "fact" }, as)).isError, true);
    await rollback();
    assert.equal((await use("lcm_expand", { query: "fact" }, as)).isError, true);
  });
});

describe("a question where sub-agents cannot be sent", () => {
  it("is read by the model instead", async () => {
    const cannot = { run: async () => { throw Object.assign(new Error("only available during a gateway request"), { name: "RequestScopedSubagentRuntimeError" }); } };
    const host = await folded({ subagent: cannot });
    try {
      host.complete = async () => ({ text: JSON_ANSWER, provider: "fake", model: "fake-1" });
      const found = await host.tools.lcm_expand_query(SESSION).execute("t", { prompt: "Which fact?", query: "fact", timeoutMs: 20_000 });
      assert.equal(found.details.answer, "It was fact-1.");
    } finally {
      await host.close();
    }
  });
});

describe("people", () => {
  let host;
  before(async () => (host = await folded({})));
  after(() => host.close());
  const type = async (args, more) => (await host.commands.lossless.handler({ ...SESSION, args, ...more })).text;

  it("see how it is, what there is to type, and what is wrong", async () => {
    assert.match(await type(""), /20 messages/);
    assert.match(await type("help"), /\/lossless backup/);
    assert.match(await type("nonsense"), /There is no `nonsense`/);
    assert.match(await type("doctor"), /healthy|damaged or lost/);
    assert.match(await type("doctor clean"), /archived_subagents/);
    assert.match(await type("doctor rollover-splits"), /No session is split/);
    assert.match(await type("doctor what"), /^Not done: doctor takes/);
    assert.match(await type("focus"), /There is no brief/);
  });

  it("fold, pin, take back, focus, back up", async () => {
    assert.match(await type("compact"), /tokens/);
    assert.match(await type("pin Never print secrets."), /^Pinned as 1/);
    assert.match(await type("unpin 1"), /Taken away/);
    assert.match(await type("undo"), /Taken back/);
    assert.match(await type("focus Which facts matter?"), /Brief focus_|could not be written/);
    assert.match(await type("backup"), /Backed up to .*\.bak/);
    assert.match(await type("rotate", { sessionFile: "agent:main:main" }), /no file to shorten/);
  });

  it("and programs get figures, never paths", async () => {
    const control = (action) => host.actions["lcm-control"].handler({ ...SESSION, payload: { action } });
    assert.deepEqual(await control("status"), { ok: true, result: { active: true, messageCount: 20 } });
    assert.equal((await control("doctor")).result.ok, true);
    assert.equal((await control("rotate")).result.messageCount, 20);
    assert.equal((await control("destroy")).ok, false);
  });
});

describe("prompts", () => {
  it("get the recall policy through the hook, or with the messages where the hook is forbidden", async () => {
    let host = await folded({});
    const { prependSystemContext } = await host.hooks.before_prompt_build({ prompt: "x" }, SESSION);
    assert.match(prependSystemContext, /lcm_grep/);
    const params = { ...SESSION, prompt: "x", messages: [], tokenBudget: 9000 };
    assert.equal((await host.engine.assemble(params)).systemPromptAddition, undefined);
    host.api.config.plugins.entries.lossless.hooks.allowConversationAccess = false;
    host.register();
    assert.equal((await host.engine.assemble(params)).systemPromptAddition, prependSystemContext);
    await host.close();
  });

  it("keep what the memory plugin says, and a session that is none of ours is folded by the host", async () => {
    const host = await makeHost({ config: { ignoreSessionPatterns: ["agent:main:cron:**"] } });
    const core = {
      buildMemorySystemPromptAddition: ({ availableTools }) => `Search with ${[...availableTools]}.`,
      delegateCompactionToRuntime: async ({ sessionKey }) => ({ ok: true, compacted: true, reason: sessionKey }),
    };
    const make = engineFactory(host.bridge(), { id: "lossless", version: "0", config: () => ({}), log: {}, importer: async () => core });
    const engine = make();
    const tools = { availableTools: new Set(["memory_search"]) };
    const made = await engine.assemble({ ...SESSION, ...tools, messages: [], tokenBudget: 9000 });
    assert.equal(made.systemPromptAddition, "Search with memory_search.");
    const cron = { sessionKey: "agent:main:cron:job:1", sessionId: "c" };
    assert.equal((await engine.compact({ ...cron, tokenBudget: 9000 })).reason, cron.sessionKey);
    await host.close();
  });

  it("of sessions that are none of ours stay the host's, within the budget", async () => {
    const host = await makeHost({ config: { ignoreSessionPatterns: ["agent:main:cron:**"] } });
    const session = { sessionKey: "agent:main:cron:job:1", sessionId: "c1" };
    const window = Array.from({ length: 100 }, (_, n) => (n % 2 ? reply("r".repeat(400)) : user("u".repeat(400))));
    assert.equal((await host.engine.assemble({ ...session, messages: window, tokenBudget: 100_000 })).messages.length, 100);
    const { messages } = await host.engine.assemble({ ...session, messages: window, tokenBudget: 1000 });
    assert.ok(messages.length > 0 && messages.length < 12);
    assert.equal(messages[0].role, "user");
    await host.close();
  });
});

describe("transcripts in the host's database", () => {
  it("are read page by page with the host's own reader, once", async () => {
    const entries = Array.from({ length: 7 }, (_, n) => ({
      entryId: `e${n}`, parentId: n ? `e${n - 1}` : null, seq: n + 1,
      message: n % 2 ? reply(`r${n}`) : user(`u${n}`), createdAt: "2026-01-01T00:00:00Z",
    }));
    const asked = [];
    const reader = {
      readSessionTranscriptVisibleMessageDelta: async ({ cursor, sessionKey }) => {
        asked.push([sessionKey, cursor]);
        if (cursor === "c-old") return { kind: "reset" };
        const start = cursor ? Number(cursor.slice(1)) : 0;
        const page = entries.slice(start, start + 3);
        return { kind: "page", cursor: `c${start + page.length}`, hasMore: start + 3 < entries.length, entries: page };
      },
    };
    const host = await makeHost({});
    const { python, env, hello } = host.bridge();
    const bridge = new Bridge({ python, env, hello, log: {}, host: answers(() => ({ api: host.api, run: (f) => f() }), async () => reader) });
    const params = { ...SESSION, sessionFile: "agent:main:main", sessionTarget: { agentId: "main", ...SESSION } };
    assert.deepEqual(await bridge.call("bootstrap", params), { bootstrapped: true, importedMessages: 7 });
    entries.push({ entryId: "e7", parentId: "e6", seq: 8, message: reply("r7") });
    await bridge.call("commitTurn", { ...SESSION, advancementKey: "k", messages: [entries[7].message] });
    assert.deepEqual(await bridge.call("bootstrap", params), { bootstrapped: true, importedMessages: 0 });
    assert.equal((await bridge.call("control", SESSION)).messageCount, 8);
    assert.deepEqual(asked.map(([, cursor]) => cursor), [undefined, "c3", "c6", "c7"]);
    await bridge.stop();
    await host.close();
  });
});

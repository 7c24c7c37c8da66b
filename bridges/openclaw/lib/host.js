// What Python may ask of the host: its model, its transcripts, its sub-agents.
import { randomUUID } from "node:crypto";

/** The answers, for the plugin whose newest `api` `latest()` gives, with the async context that it was registered in. */
export function answers(latest, importer = (name) => import(name)) {
  return {
    "llm.complete": (params, open, signal) => complete(latest, params, open, signal),
    "transcript.read": (params) => readTranscript(importer, params),
    "transcript.rewrite": (params, open) => rewrite(params, open),
    "subagent.run": (params, open, signal) => runSubagent(latest, params, open, signal),
  };
}

async function complete(latest, params, open, signal) {
  const { api, run } = latest();
  const own = open?.llm?.complete;
  const plugin = api?.runtime?.llm?.complete;
  if (!own && !plugin) return null;
  const request = {
    messages: [{ role: "user", content: params.user }],
    systemPrompt: params.system,
    maxTokens: params.maxTokens,
    purpose: params.purpose,
    signal,
  };
  if (params.model) request.model = params.model;
  if (params.temperature != null) request.temperature = params.temperature;
  if (params.reasoning) request.reasoning = params.reasoning;
  const answer = own
    ? await open.run(() => own.call(open.llm, request))
    : await run(() => plugin.call(api.runtime.llm, request));
  const { text, provider, model, stopReason, usage } = answer ?? {};
  return { text, provider, model, stopReason, usage };
}

/** A page of a transcript that the host keeps in its own database; hosts up to 2026.7.1 have files instead. */
async function readTranscript(importer, { agentId, sessionKey, sessionId, cursor }) {
  let read;
  try {
    read = (await importer("openclaw/plugin-sdk/session-transcript-runtime")).readSessionTranscriptVisibleMessageDelta;
  } catch {
    return { kind: "unavailable" };
  }
  if (!read) return { kind: "unavailable" };
  const page = await read({ agentId, sessionKey, sessionId, ...(cursor ? { cursor } : {}) });
  const { kind, hasMore } = page;
  const entries = page.entries?.map(({ entryId, parentId, seq, message, createdAt }) => ({
    entryId, parentId, seq, message, createdAt,
  }));
  return { kind, cursor: page.cursor, hasMore, entries };
}

async function rewrite({ replacements }, open) {
  if (!open?.rewrite) return { rewrittenEntries: 0 };
  return open.run(() => open.rewrite({ replacements }));
}

/** A task, done by a sub-agent: its last words, or the phase in which it failed. Its session is removed in any case. */
async function runSubagent(latest, { sessionKey, message, model, timeoutMs }, open, signal) {
  const agents = latest().api?.runtime?.subagent;
  if (!agents?.run) return { missing: true, phase: "spawn", error: "this host has no sub-agents for plugins" };
  const within = open?.run ?? latest().run;
  return within(async () => {
    let started;
    try {
      started = await start(agents, { sessionKey, message, model });
    } catch (error) {
      const missing = /RequestScoped|only available/i.test(`${error?.name} ${error?.message}`);
      return { missing, phase: "spawn", error: String(error?.message ?? error) };
    }
    try {
      const waited = await Promise.race([agents.waitForRun({ runId: started.runId, timeoutMs }), aborted(signal)]);
      if (waited?.status !== "ok") return { phase: "wait", error: waited?.error ?? `the sub-agent is ${waited?.status}` };
      return { text: await lastWords(agents, sessionKey) };
    } catch (error) {
      return { phase: "wait", error: String(error?.message ?? error) };
    } finally {
      await Promise.resolve(agents.deleteSession?.({ sessionKey })).catch(() => {});
    }
  });
}

/** With the model that was asked for; a host that does not allow it chooses its own. */
async function start(agents, { sessionKey, message, model }) {
  const task = () => ({ sessionKey, message, deliver: false, idempotencyKey: randomUUID() });
  if (!model) return agents.run(task());
  const [provider, ...rest] = model.split("/");
  try {
    return await agents.run({ ...task(), provider, model: rest.join("/") });
  } catch (error) {
    if (!/model|override|allow|polic|auth/i.test(String(error?.message))) throw error;
    return agents.run(task());
  }
}

async function lastWords(agents, sessionKey) {
  const { messages = [] } = (await agents.getSessionMessages({ sessionKey, limit: 80 })) ?? {};
  for (const { role, content } of [...messages].reverse()) {
    if (role !== "assistant") continue;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : (content ?? []);
    const text = blocks.filter((block) => block?.type === "text").map((block) => block.text).join("\n").trim();
    if (text) return text;
  }
  return null;
}

function aborted(signal) {
  return new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(new Error("cancelled")), { once: true });
  });
}

// The context engine: every method translates, Python decides, and nothing is ever thrown at the host but where it asks for it.
import { randomUUID } from "node:crypto";
import { encode } from "./frames.js";

/** How much of the end of a window Python gets at first. */
const TAIL = 64;
const COMPACT_SECONDS = 180;
const MARGIN_MS = 5000;
const ELSE = 'run this agent in OpenClaw itself, or set plugins.slots.contextEngine to "legacy"';
const CANNOT_STORE = `lossless is not told here what is said: ${ELSE}.`;
const CANNOT_ASK = `lossless is not asked here for prompts: ${ELSE}, or set hostFallbackMode to "capture-only" so that lossless only stores what is said.`;

export function engineFactory(bridge, { id, version, config, log, captureOnly = () => false, importer = (name) => import(name) }) {
  const session = ({ sessionId, sessionKey }) => ({ sessionId, sessionKey });
  const transcript = ({ sessionFile, sessionTarget }) => ({ sessionFile, sessionTarget: target(sessionTarget) });
  const host = ({ runtimeContext }) => ({
    llm: runtimeContext?.llm,
    rewrite: runtimeContext?.rewriteTranscriptEntries,
  });
  const model = ({ model: named, runtimeContext = {}, runtimeSettings: { model: settled } = {} }) => {
    const name = runtimeContext.modelId ?? runtimeContext.model ?? named ?? settled?.resolved ?? settled?.requested;
    const provider = runtimeContext.provider ?? settled?.provider;
    return name && provider && !name.startsWith(`${provider}/`) ? `${provider}/${name}` : name;
  };
  const budget = ({ tokenBudget, runtimeContext }) => tokenBudget ?? runtimeContext?.tokenBudget;
  /** What rules and thresholds depend on. */
  const turn = (params) => ({
    tokenBudget: budget(params),
    model: model(params),
    contextWindow: params.runtimeContext?.modelContextWindow,
    promptBudget: params.runtimeSettings?.limits?.promptTokenBudget,
    currentTokenCount: params.currentTokenCount ?? params.runtimeContext?.currentTokenCount,
    hostFrames: Boolean(params.runtimeSettings?.executionHost?.id),
  });

  /** A method that answers with `instead(params, reason)` when it cannot do its work, whatever the host hands over. */
  const safe = (name, work, instead) => async (given) => {
    const params = given ?? {};
    try {
      return await work(params);
    } catch (error) {
      const reason = String(attempt(() => error.message) ?? attempt(() => String(error)) ?? "it failed");
      if (!attempt(() => params.abortSignal?.aborted)) attempt(() => log.warn?.(`[lossless] ${name}: ${reason}`));
      return instead(params, reason);
    }
  };

  const compactMs = () => {
    const seconds = config()?.agents?.defaults?.compaction?.timeoutSeconds ?? COMPACT_SECONDS;
    return Math.max(1000, seconds * 1000 - MARGIN_MS);
  };

  /** What the host's memory plugin says to the model: with an engine in the slot, the host leaves that to the engine. */
  const memoryPolicy = async (params) => {
    try {
      const { availableTools, citationsMode } = params;
      const { buildMemorySystemPromptAddition } = await importer("openclaw/plugin-sdk/core");
      return (await buildMemorySystemPromptAddition?.({ availableTools: availableTools ?? new Set(), citationsMode })) || undefined;
    } catch {
      return undefined; // no memory plugin, or a host that adds it by itself
    }
  };

  /** An assembled prompt with what belongs into the system prompt beside it. */
  const withPolicies = async (params, made) => {
    const additions = [await memoryPolicy(params), made.systemPromptAddition].filter(Boolean);
    return additions.length > 0 ? { ...made, systemPromptAddition: additions.join("\n\n") } : made;
  };

  const assemble = async (params) => {
    const { prompt } = params;
    const messages = listed(params.messages);
    const ask = (window) =>
      bridge.call("assemble", {
        ...session(params), ...turn(params), prompt, messages: window, messageCount: messages.length,
      }, { signal: params.abortSignal, deadlineMs: 20_000 });
    let made = await ask(messages.slice(-TAIL));
    if (made.needsAll) made = await ask(messages);
    const { liveFrom, ...rest } = made;
    return withPolicies(params, { ...rest, messages: [...made.messages, ...messages.slice(liveFrom)] });
  };

  const compact = async (params) => {
    const { force, compactionTarget, customInstructions, runtimeContext } = params;
    const done = await bridge.call("compact", {
      ...session(params), ...transcript(params), ...turn(params), force, compactionTarget, customInstructions,
      trigger: runtimeContext?.trigger,
      manual: runtimeContext?.manualCompaction === true || runtimeContext?.trigger === "manual",
    }, { signal: params.abortSignal, deadlineMs: compactMs(), open: host(params) });
    if (!done.delegate) return done;
    const { delegateCompactionToRuntime } = await importer("openclaw/plugin-sdk/core");
    return delegateCompactionToRuntime(params);
  };

  const commitTurn = async (given) => {
    const params = given ?? {};
    return bridge.call("commitTurn", {
      ...session(params), sessionTarget: target(params.admission), admission: anchor(params.admission),
      terminal: anchor(params.terminal), advancementKey: params.advancementKey, messages: params.messages,
      ...turn(params), isHeartbeat: params.isHeartbeat === true,
    }, { signal: params.abortSignal });
  };

  /** The host's own messages, for when there are no others. */
  const unchanged = (params) => {
    const messages = listed(attempt(() => params.messages));
    const estimatedTokens = Math.ceil(messages.reduce((sum, message) => sum + sizeOf(message), 2) / 4);
    return withPolicies(params, { messages, estimatedTokens, promptAuthority: "preassembly_may_overflow" });
  };

  return () => ({
    info: {
      id,
      name: "lossless",
      version,
      ownsCompaction: true,
      turnMaintenanceMode: "background",
      hostRequirements: requirements(captureOnly()),
      transcriptSemantics: {
        currentTurnFence: "before-current-turn-entry-v1",
        turnAdvancementIdempotency: "atomic-idempotent-v1",
      },
    },
    bootstrap: safe(
      "bootstrap",
      (params) => bridge.call("bootstrap", { ...session(params), ...transcript(params) }, {
        signal: params.abortSignal, open: host(params),
      }),
      (_, reason) => ({ bootstrapped: false, importedMessages: 0, reason }),
    ),
    maintain: safe(
      "maintain",
      (params) => bridge.call("maintain", {
        ...session(params), ...transcript(params), ...turn(params),
        allowDeferredCompactionExecution: params.runtimeContext?.allowDeferredCompactionExecution === true,
        canRewrite: typeof params.runtimeContext?.rewriteTranscriptEntries === "function",
      }, { signal: params.abortSignal, deadlineMs: compactMs(), open: host(params) }),
      (_, reason) => ({ changed: false, bytesFreed: 0, rewrittenEntries: 0, reason }),
    ),
    ingest: safe(
      "ingest",
      (params) => bridge.call("ingest", {
        ...session(params), message: params.message, isHeartbeat: params.isHeartbeat === true, key: randomUUID(),
      }),
      () => ({ ingested: false }),
    ),
    ingestBatch: safe(
      "ingestBatch",
      (params) => bridge.call("ingestBatch", {
        ...session(params), messages: params.messages, isHeartbeat: params.isHeartbeat === true, key: randomUUID(),
      }),
      () => ({ ingestedCount: 0 }),
    ),
    afterTurn: safe(
      "afterTurn",
      async (params) => {
        const messages = params.messages?.slice(params.prePromptMessageCount ?? 0) ?? [];
        await bridge.call("afterTurn", {
          ...session(params), ...transcript(params), ...turn(params), messages,
          isHeartbeat: params.isHeartbeat === true, key: randomUUID(),
        }, { signal: params.abortSignal, open: host(params) });
      },
      () => undefined,
    ),
    // The one method that may throw: the host keeps the turn and hands it over again before the next one.
    commitTurn,
    assemble: safe("assemble", assemble, unchanged),
    compact: safe("compact", compact, (_, reason) => ({ ok: false, compacted: false, reason })),
    prepareSubagentSpawn: safe(
      "prepareSubagentSpawn",
      async ({ parentSessionKey, childSessionKey }) => {
        await bridge.call("prepareSubagentSpawn", { parentSessionKey, childSessionKey });
        const rollback = () => bridge.call("onSubagentEnded", { childSessionKey, reason: "deleted" });
        return { rollback: safe("rollback", rollback, () => undefined) };
      },
      () => undefined,
    ),
    onSubagentEnded: safe(
      "onSubagentEnded",
      async ({ childSessionKey, reason }) => {
        await bridge.call("onSubagentEnded", { childSessionKey, reason });
      },
      () => undefined,
    ),
    // Instances come and go with every turn; what they share stays.
    dispose: async () => {},
  });
}

/** What a host must be able to do; asked only to store, it need not ask for prompts and compaction. */
function requirements(captureOnly) {
  const storing = ["bootstrap", "after-turn", "maintain"];
  const needs = captureOnly ? storing : [...storing, "assemble-before-prompt", "compact"];
  return {
    "agent-run": { requiredCapabilities: needs, unsupportedMessage: captureOnly ? CANNOT_STORE : CANNOT_ASK },
    "manual-compact": { requiredCapabilities: captureOnly ? [] : ["compact"], unsupportedMessage: CANNOT_ASK },
  };
}

/** What `read` gives; undefined when even that cannot be read. */
function attempt(read) {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function listed(messages) {
  return Array.isArray(messages) ? messages : [];
}

/** How long a message is, about; of one that JSON cannot hold only the words count. */
function sizeOf(message) {
  const words = () => [message.content].flat().map((block) => block?.text ?? block).join("").length;
  return attempt(() => encode(message).length) ?? attempt(words) ?? 0;
}

function anchor(given) {
  return given ? { entryId: given.entryId } : undefined;
}

function target(given) {
  if (!given) return undefined;
  const { agentId, sessionId, sessionKey } = given;
  return { agentId, sessionId, sessionKey };
}

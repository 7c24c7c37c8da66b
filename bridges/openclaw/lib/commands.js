// What people type, what programs ask for, and what the host says on its way.

const COMMAND_MS = 600_000;

export function registerCommands(api, bridge, verbs) {
  const description = `lossless context management: ${Object.keys(verbs).join(", ")}`;
  for (const name of ["lossless", "lcm"]) {
    api.registerCommand?.({ name, description, acceptsArgs: true, requireAuth: true, handler: (context) => type(bridge, context) });
  }
}

async function type(bridge, context) {
  try {
    const { args, sessionKey, sessionId, sessionFile, runtimeContext } = context ?? {};
    const open = { llm: runtimeContext?.llm };
    const params = { args: args ?? "", sessionKey, sessionId, sessionFile };
    return await bridge.call("command", params, { open, deadlineMs: COMMAND_MS, replay: false });
  } catch (error) {
    return { text: `Not done: ${error?.message ?? error}` };
  }
}

/** The session action `lcm-control`: figures for programs, never a path or a word that was said. */
export function registerControl(api, bridge) {
  const register = api.session?.controls?.registerSessionAction ?? api.registerSessionAction;
  register?.({
    id: "lcm-control",
    description: "How a session is kept: status, doctor, rotate.",
    handler: async (given) => {
      try {
        const { sessionKey, payload } = given ?? {};
        const action = typeof payload === "string" ? payload : (payload?.action ?? payload?.op ?? "status");
        return { ok: true, result: await bridge.call("control", { action, sessionKey }) };
      } catch (error) {
        return { ok: false, error: String(error?.message ?? error) };
      }
    },
  });
}

export function registerHooks(api, bridge, { id, isSelected, log }) {
  const tell = (name, params, options) =>
    bridge.call(name, params, options).catch((error) => log.warn?.(`[lossless] ${name}: ${error?.message ?? error}`));

  api.on("before_prompt_build", async () => {
    if (!isSelected()) return undefined;
    try {
      if (!bridge.about) await bridge.call("ping", {}, { deadlineMs: 15_000 });
      return bridge.about.enabled ? { prependSystemContext: bridge.about.policy } : undefined;
    } catch {
      return undefined; // without Python there is nothing to recall
    }
  });
  api.on("before_reset", async (event, context) => {
    if (!isSelected()) return;
    const { sessionKey, sessionId, agentId } = context ?? {};
    const sessionTarget = { agentId: agentId ?? agentOf(sessionKey), sessionKey, sessionId };
    await tell("hook.before_reset", { sessionKey, sessionId, sessionFile: event?.sessionFile, sessionTarget, reason: event?.reason });
  });
  api.on("session_end", async (event, context) => {
    if (!isSelected()) return;
    const { sessionKey, sessionId, reason } = { ...context, ...event };
    await tell("hook.session_end", { sessionKey, sessionId, reason });
  });
  api.on("gateway_start", async () => {
    if (isSelected()) await tell("hook.gateway_start", {}, { deadlineMs: 120_000 });
    else log.warn?.(`[lossless] is loaded but not in use: set plugins.slots.contextEngine to "${id}"`);
  });
  api.on("gateway_stop", () => bridge.stop());
}

function agentOf(sessionKey) {
  const [kind, agent] = String(sessionKey ?? "").split(":");
  return kind === "agent" && agent ? agent : "main";
}

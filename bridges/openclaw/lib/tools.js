// The tools that agents get, as Python declares them.

const MARGIN_MS = 10_000;
const QUESTION_MS = 150_000;

export function registerTools(api, bridge, tools) {
  for (const tool of tools) {
    api.registerTool((context) => ({
      ...tool,
      label: tool.name,
      execute: (_id, args, signal) => execute(bridge, tool.name, args ?? {}, context ?? {}, signal),
    }), { name: tool.name });
  }
}

async function execute(bridge, name, args, { sessionKey, sessionId }, signal) {
  const asked = name === "lcm_expand_query" ? (args.timeoutMs ?? QUESTION_MS) : 60_000;
  const deadlineMs = Math.min(600_000, Number(asked) || QUESTION_MS) + MARGIN_MS;
  try {
    return await bridge.call("tool.call", { name, args, sessionKey, sessionId }, { signal, deadlineMs });
  } catch (error) {
    const details = { error: String(error?.message ?? error), hint: "The archive cannot be asked now; go on without it." };
    return { content: [{ type: "text", text: JSON.stringify(details) }], details, isError: true };
  }
}

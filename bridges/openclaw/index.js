// The OpenClaw plugin: starts Python and passes calls on. All decisions are made there.
import { readFileSync } from "node:fs";
import { registerCommands, registerControl, registerHooks } from "./lib/commands.js";
import { chooseConfig, choosePython, isAtLeast, isCaptureOnly } from "./lib/config.js";
import { engineFactory } from "./lib/engine.js";
import { answers } from "./lib/host.js";
import { Bridge, here } from "./lib/rpc.js";
import { registerTools } from "./lib/tools.js";

const ID = "lossless";
const OLDEST = "2026.5.28";
/** From here on plugins add to prompts only if the config lets them. */
const ASKS_FOR_HOOKS = "2026.7.2";
/** Hosts register a plugin many times in one process; all of them share one Python. */
const SHARED = Symbol.for("lossless.openclaw.bridge");
const declared = JSON.parse(readFileSync(new URL("./declared.json", import.meta.url), "utf8"));

function settingsOf(api) {
  const stateDir = api.runtime?.state?.resolveStateDir?.() ?? process.env.OPENCLAW_STATE_DIR;
  const entry = api.config?.plugins?.entries?.[ID];
  const hookWorks = !isAtLeast(api.runtime?.version, ASKS_FOR_HOOKS) || entry?.hooks?.allowConversationAccess === true;
  return {
    python: choosePython(api.config, api.pluginConfig, process.env),
    env: stateDir ? { ...process.env, OPENCLAW_STATE_DIR: stateDir } : process.env,
    hello: {
      protocol: declared.protocol,
      plugin: declared.version,
      host: api.runtime?.version,
      stateDir,
      config: chooseConfig(api.config, api.pluginConfig, declared.ownSettings),
      capabilities: {
        llm: typeof api.runtime?.llm?.complete === "function",
        subagents: typeof api.runtime?.subagent?.run === "function",
        promptHook: hookWorks,
      },
    },
  };
}

/** The one bridge of this process, with the newest registration behind it. */
function sharedBridge(api, log) {
  const shared = (globalThis[SHARED] ??= { bridge: null, latest: null });
  const isFull = (api.registrationMode ?? "full") === "full";
  if (isFull || !shared.latest) shared.latest = { api, run: here() };
  if (!shared.bridge) shared.bridge = new Bridge({ ...settingsOf(api), host: answers(() => shared.latest), log });
  else if (isFull) {
    shared.bridge.stopped = false;
    shared.bridge.configure(settingsOf(api));
  }
  return shared.bridge;
}

function register(api) {
  const log = api.logger ?? console;
  const mode = api.registrationMode ?? "full";
  if (typeof api.registerContextEngine !== "function") {
    log.error?.(`[lossless] this OpenClaw has no context engines: update it to ${OLDEST} or newer`);
    return;
  }
  if (!["full", "discovery", "tool-discovery"].includes(mode)) return;
  const bridge = sharedBridge(api, log);
  const isSelected = () => (api.config?.plugins?.slots?.contextEngine ?? ID) === ID;
  const captureOnly = () => isCaptureOnly(chooseConfig(api.config, api.pluginConfig, declared.ownSettings), process.env);
  api.registerContextEngine(ID, engineFactory(bridge, {
    id: ID, version: declared.version, config: () => api.config, log, captureOnly,
  }));
  registerTools(api, bridge, declared.tools);
  registerCommands(api, bridge, declared.commands);
  registerControl(api, bridge);
  registerHooks(api, bridge, { id: ID, isSelected, log });
}

export default { id: ID, name: "lossless", register };

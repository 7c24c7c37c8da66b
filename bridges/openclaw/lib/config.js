// The settings: this plugin's own, else those that lossless-claw left behind.

const PLACES = [
  ["plugins", "entries", "lossless", "config"],
  ["plugins", "entries", "lossless-claw", "config"],
  ["plugins", "config", "lossless"],
  ["plugins", "config", "lossless-claw"],
];

/** What Python gets: the first place that says anything about it. `own` are keys that are for this plugin alone. */
export function chooseConfig(config, pluginConfig, own) {
  for (const found of [pluginConfig, ...PLACES.map((place) => inside(config, place))]) {
    if (!found || typeof found !== "object") continue;
    const rest = Object.fromEntries(Object.entries(found).filter(([key]) => !own.includes(key)));
    if (Object.keys(rest).length > 0) return rest;
  }
  return {};
}

export function choosePython(config, pluginConfig, env) {
  const named = pluginConfig?.python ?? inside(config, PLACES[0])?.python ?? env.LCM_PYTHON;
  return named || (process.platform === "win32" ? "python" : "python3");
}

/** Whether lossless may be used where it can only store: the setting `hostFallbackMode`. */
export function isCaptureOnly(chosen, env) {
  return (env.LCM_HOST_FALLBACK_MODE?.trim() || chosen.hostFallbackMode) === "capture-only";
}

/** Whether the host's version is at least `year.month.day`; an unknown one counts as new. */
export function isAtLeast(version, wanted) {
  const found = /^(\d+)\.(\d+)\.(\d+)/.exec(String(version ?? ""));
  if (!found) return true;
  const [have, want] = [found.slice(1).map(Number), wanted.split(".").map(Number)];
  const at = have.findIndex((number, place) => number !== want[place]);
  return at < 0 || have[at] > want[at];
}

function inside(value, place) {
  return place.reduce((found, name) => (found && typeof found === "object" ? found[name] : undefined), value);
}

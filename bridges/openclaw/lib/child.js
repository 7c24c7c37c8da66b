// The Python process: started when it is needed, gone when this process is.
import { spawn } from "node:child_process";
import { Lines, encode } from "./frames.js";

/** Variables that Python gets; nothing else of the host's environment reaches it. */
const PASSED = [
  "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "LD_LIBRARY_PATH",
  "SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME",
  "OPENCLAW_STATE_DIR", "OPENCLAW_HOME", "OPENCLAW_CONFIG_PATH",
];

const LAST_WORDS_MS = 150;

/** Starts the bridge; works on any Python, so that a wrong one can say so. */
const BOOT = `
import sys, json
sys.path[:] = [place for place in sys.path if place]
def refuse(text):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "fatal", "params": {"text": text}}) + "\\n")
    sys.stdout.flush()
    sys.exit(78)
here = sys.executable + " (Python " + ".".join(str(n) for n in sys.version_info[:3]) + ")"
if sys.version_info < (3, 11):
    refuse(here + " is too old: lossless needs Python 3.11 or newer")
try:
    from lossless.hosts.openclaw.service import main
except ImportError as error:
    refuse(here + " has no lossless: run '" + sys.executable + " -m pip install --upgrade lossless' (" + str(error) + ")")
sys.exit(main())
`;

export function environment(env, extra = {}) {
  const chosen = { PYTHONUTF8: "1", PYTHONUNBUFFERED: "1", ...extra };
  for (const [name, value] of Object.entries(env)) {
    if (PASSED.includes(name.toUpperCase()) || name.startsWith("LCM_")) chosen[name] ??= value;
  }
  return chosen;
}

export class Child {
  /** `onFrame` gets what Python says, `onLog` what it writes to standard error, `onEnd` the reason when it is gone. */
  constructor(python, env, { onFrame, onLog, onEnd }) {
    this.gone = null;
    this.fatal = null;
    const child = spawn(python, ["-c", BOOT], { stdio: ["pipe", "pipe", "pipe"], env, windowsHide: true });
    this.process = child;
    const end = (reason) => {
      if (this.gone) return;
      this.gone = this.fatal ?? reason;
      onEnd(this.gone);
    };
    const lines = new Lines((line) => {
      let frame;
      try {
        frame = JSON.parse(line);
      } catch {
        onLog(`Python wrote a line that is no JSON: ${line.slice(0, 200)}`);
        return;
      }
      if (frame?.method === "fatal") this.fatal = String(frame.params?.text ?? "Python refused to start");
      else onFrame(frame);
    });
    child.stdout.on("data", (chunk) => lines.push(chunk));
    const errors = new Lines(onLog);
    child.stderr.on("data", (chunk) => errors.push(chunk));
    child.stdin.on("error", () => {});
    child.on("error", (error) => end(cannotStart(python, error)));
    const ended = (code, signal) => end(`Python ended (${signal ?? `exit code ${code}`})`);
    child.on("close", ended);
    // What it had started may hold its pipes for longer; what it said last is waited for, but not for them.
    child.on("exit", (code, signal) => setTimeout(() => ended(code, signal), LAST_WORDS_MS));
    this.unref();
  }

  get pid() {
    return this.process.pid;
  }

  send(frame) {
    if (!this.gone) this.process.stdin.write(encode(frame));
  }

  /** While a call is open the process must not end; while none is, it may. */
  ref() {
    for (const one of [this.process, this.process.stdin, this.process.stdout, this.process.stderr]) one?.ref?.();
  }

  unref() {
    for (const one of [this.process, this.process.stdin, this.process.stdout, this.process.stderr]) one?.unref?.();
  }

  /** Hang up; if that is not enough, insist. */
  stop() {
    this.process.stdin.end();
    const insist = setTimeout(() => this.process.kill("SIGTERM"), 3000);
    insist.unref();
    this.process.once("close", () => clearTimeout(insist));
  }
}

function cannotStart(python, error) {
  const help = "set plugins.entries.lossless.config.python to a Python 3.11 or newer that has lossless installed";
  if (error?.code === "ENOENT") return `there is no Python at "${python}": ${help}`;
  if (error?.code === "EACCES") return `"${python}" may not be run: ${help}`;
  return `Python could not be started (${error?.message ?? error}): ${help}`;
}

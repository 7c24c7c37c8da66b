// The process behind the plugin: when it starts, when it ends, and what is said when it cannot.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { environment } from "../lib/child.js";
import { chooseConfig, choosePython, isAtLeast } from "../lib/config.js";
import { PYTHON, SESSION, commitMany, isAlive, makeHost, turn, until, user } from "./host.js";

/** A folder that is removed afterwards. */
async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "lossless-life-"));
  try {
    await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function withHost(options, work) {
  const host = await makeHost(options);
  try {
    await work(host);
  } finally {
    await host.close();
  }
}

/** Every method gives the host something that it can go on with; only a turn that is not stored is thrown back. */
async function goesOnWithout(host) {
  const window = [user("hello")];
  const { engine } = host;
  assert.equal((await engine.bootstrap({ ...SESSION })).bootstrapped, false);
  assert.equal((await engine.maintain({ ...SESSION })).changed, false);
  assert.deepEqual(await engine.ingest({ ...SESSION, message: window[0] }), { ingested: false });
  assert.deepEqual(await engine.ingestBatch({ ...SESSION, messages: window }), { ingestedCount: 0 });
  assert.equal(await engine.afterTurn({ ...SESSION, messages: window, prePromptMessageCount: 0 }), undefined);
  const made = await engine.assemble({ ...SESSION, messages: window });
  assert.deepEqual(made.messages, window);
  assert.equal(made.promptAuthority, "preassembly_may_overflow");
  assert.equal((await engine.compact({ ...SESSION, tokenBudget: 9 })).ok, false);
  assert.equal(await engine.prepareSubagentSpawn({ parentSessionKey: "a", childSessionKey: "b" }), undefined);
  assert.equal(await engine.onSubagentEnded({ childSessionKey: "b", reason: "completed" }), undefined);
  assert.equal(await engine.dispose(), undefined);
  assert.equal((await host.tools.lcm_grep(SESSION).execute("t", { pattern: "x" })).isError, true);
  assert.match((await host.commands.lcm.handler({ ...SESSION, args: "status" })).text, /^Not done/);
  assert.equal((await host.actions["lcm-control"].handler({ ...SESSION })).ok, false);
  assert.equal(await host.hooks.before_prompt_build({}, SESSION), undefined);
  await host.hooks.before_reset({ reason: "new" }, SESSION);
  await assert.rejects(engine.commitTurn(turn(1)));
}

describe("when Python cannot be used, the host goes on and the log says what helps", () => {
  it("no such program", () =>
    withHost({ python: "/nowhere/python3" }, async (host) => {
      await goesOnWithout(host);
      assert.match(host.said.join("\n"), /there is no Python at "\/nowhere\/python3": set plugins\.entries\.lossless\.config\.python/);
    }));

  it("a Python that is too old, or without lossless", () =>
    inFolder(async (folder) => {
      const old = join(folder, "python3");
      writeFileSync(old, `#!/bin/sh\nexec "${PYTHON}" -c "import sys; sys.version_info = (3, 9, 1); exec(sys.argv[1])" "$2"\n`);
      chmodSync(old, 0o755);
      await withHost({ python: old }, async (host) => {
        await goesOnWithout(host);
        assert.match(host.said.join("\n"), /is too old: lossless needs Python 3\.11 or newer/);
      });
      writeFileSync(old, `#!/bin/sh\nexec "${PYTHON}" -S -c "import sys; sys.path[:] = [p for p in sys.path if 'site' not in p and 'src' not in p]; exec(sys.argv[1])" "$2"\n`);
      await withHost({ python: old }, async (host) => {
        await assert.rejects(host.engine.commitTurn(turn(1)), /has no lossless: run '.* -m pip install --upgrade lossless'/);
      });
    }));

  it("a folder that cannot be made for the database", () =>
    inFolder(async (folder) => {
      writeFileSync(join(folder, "file"), "");
      await withHost({ config: { databasePath: join(folder, "file", "lcm.db") } }, async (host) => {
        await goesOnWithout(host);
        assert.match(host.said.join("\n"), /lcm\.db/);
      });
    }));

  it("a setting with a wrong value", () =>
    withHost({ config: { freshTailCount: "many" } }, async (host) => {
      await assert.rejects(host.engine.commitTurn(turn(1)), /freshTailCount/);
    }));

  it("a plugin of another version", () =>
    withHost({}, async (host) => {
      host.bridge().hello.protocol = 99;
      await assert.rejects(host.engine.commitTurn(turn(1)), /install the plugin and the Python package of one version/);
    }));

  it("a host that is too old", async () => {
    const said = [];
    const plugin = (await import("../index.js")).default;
    plugin.register({ logger: { error: (text) => said.push(text) } });
    assert.match(said[0], /update it to 2026\.5\.28 or newer/);
  });
});

describe("one Python for a process", () => {
  it("is shared by all registrations and starts with the first call, never before", () =>
    withHost({ mode: "discovery" }, async (host) => {
      host.register();
      host.api.registrationMode = "full";
      host.register();
      assert.equal(host.bridge().pid, null);
      await commitMany(host.engine, 1);
      const { pid } = host.bridge();
      host.register();
      await host.engine.commitTurn(turn(2));
      assert.equal(host.bridge().pid, pid);
    }));

  it("is not registered where only names are wanted", async () => {
    const plugin = (await import("../index.js")).default;
    const touched = [];
    const api = new Proxy({ registrationMode: "cli-metadata", registerContextEngine: () => touched.push("engine") }, {});
    plugin.register(api);
    assert.deepEqual(touched, []);
  });

  it("ends with the gateway, and starts anew with other settings", () =>
    withHost({}, async (host) => {
      await commitMany(host.engine, 1);
      const { pid } = host.bridge();
      host.api.pluginConfig.freshTailCount = 7;
      host.register();
      assert.deepEqual(await host.engine.commitTurn(turn(1)), { status: "duplicate" });
      assert.notEqual(host.bridge().pid, pid);
      const second = host.bridge().pid;
      await host.hooks.gateway_stop();
      await until(() => !isAlive(pid) && !isAlive(second));
    }));

  it("lets a one-shot run end by itself, and ends when that crashes", () =>
    inFolder(async (folder) => {
      const script = (last) => `
        const { makeHost, turn } = await import(${JSON.stringify(new URL("./host.js", import.meta.url).href)});
        const host = await makeHost({ state: ${JSON.stringify(folder)} });
        await host.engine.commitTurn(turn(1));
        console.log(host.bridge().pid);
        ${last}`;
      for (const last of ["", "process.kill(process.pid, 'SIGKILL');"]) {
        const run = spawnSync(process.execPath, ["--input-type=module", "-e", script(last)], { encoding: "utf8", timeout: 20_000 });
        const pid = Number(run.stdout.trim());
        assert.ok(pid > 0, run.stderr);
        assert.equal(run.error, undefined);
        await until(() => !isAlive(pid));
      }
    }));

  it("shares the database with that of another process", () =>
    inFolder(async (folder) => {
      const script = `
        const { makeHost, turn } = await import(${JSON.stringify(new URL("./host.js", import.meta.url).href)});
        const host = await makeHost({ state: ${JSON.stringify(folder)} });
        for (let n = 1; n <= 20; n++) await host.engine.commitTurn(turn(n));
        await host.close({ keep: true });`;
      const { spawn } = await import("node:child_process");
      const other = spawn(process.execPath, ["--input-type=module", "-e", script], { env: process.env });
      const ended = new Promise((go) => other.on("close", go));
      const host = await makeHost({ state: folder });
      for (let n = 20; n >= 1; n--) await host.engine.commitTurn(turn(n));
      assert.equal(await ended, 0);
      assert.equal((await host.actions["lcm-control"].handler({ ...SESSION })).result.messageCount, 40);
      await host.close({ keep: true });
    }));

  it("is replaced although something that it started holds its pipes", () =>
    inFolder(async (folder) => {
      const python = join(folder, "python3");
      const holders = join(folder, "holders");
      writeFileSync(python, `#!/bin/sh\nsleep 600 &\necho $! >> "${holders}"\nexec "${PYTHON}" "$@"\n`);
      chmodSync(python, 0o755);
      await withHost({ python }, async (host) => {
        await commitMany(host.engine, 1);
        const pending = host.engine.commitTurn(turn(2));
        process.kill(host.bridge().pid, "SIGKILL");
        assert.match((await pending).status, /committed|duplicate/);
      });
      for (const pid of readFileSync(holders, "utf8").split("\n").filter(Boolean)) process.kill(Number(pid));
    }));

  it("is left alone for a while when it keeps failing", () =>
    inFolder(async (folder) => {
      const python = join(folder, "python3");
      const starts = join(folder, "starts");
      writeFileSync(python, `#!/bin/sh\necho started >> "${starts}"\nexit 1\n`);
      chmodSync(python, 0o755);
      await withHost({ python }, async (host) => {
        for (let n = 0; n < 3; n++) await assert.rejects(host.engine.commitTurn(turn(1)));
        const before = readFileSync(starts, "utf8");
        await assert.rejects(host.engine.commitTurn(turn(1)));
        assert.equal(readFileSync(starts, "utf8"), before);
      });
    }));
});

describe("what Python is told", () => {
  it("nothing of the host's secrets", () => {
    const env = environment({ PATH: "/bin", OPENAI_API_KEY: "sk", AWS_SECRET: "s", LCM_FRESH_TAIL_COUNT: "3", OPENCLAW_STATE_DIR: "/s", NODE_OPTIONS: "x" });
    assert.deepEqual(Object.keys(env).sort(), ["LCM_FRESH_TAIL_COUNT", "OPENCLAW_STATE_DIR", "PATH", "PYTHONUNBUFFERED", "PYTHONUTF8"]);
  });

  it("the settings of lossless-claw, until there are its own", () => {
    const old = { freshTailCount: 5 };
    const entry = { plugins: { entries: { "lossless-claw": { config: old } } } };
    assert.deepEqual(chooseConfig(entry, { python: "p" }, ["python"]), old);
    assert.deepEqual(chooseConfig(entry, { python: "p", leafChunkTokens: 2 }, ["python"]), { leafChunkTokens: 2 });
    assert.deepEqual(chooseConfig({ plugins: { config: { "lossless-claw": old } } }, undefined, ["python"]), old);
    assert.deepEqual(chooseConfig(undefined, undefined, ["python"]), {});
    assert.equal(choosePython({}, { python: "/p" }, { LCM_PYTHON: "/q" }), "/p");
    assert.equal(choosePython({}, {}, { LCM_PYTHON: "/q" }), "/q");
  });

  it("which of two contracts the host has", () => {
    assert.deepEqual(["2026.7.1", "2026.7.2", "2026.7.2-beta.2", "2026.10.1", "dev"].map((v) => isAtLeast(v, "2026.7.2")), [false, true, true, true, true]);
  });
});

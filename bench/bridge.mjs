// Times the plugin's calls to Python, for bench/bridge.py: prints milliseconds as JSON.
import { makeHost } from "../bridges/openclaw/test/host.js";

const [state, count, rounds] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const session = { sessionKey: "bench:main", sessionId: "run-1" };
const window = Array.from({ length: count }, (_, n) => ({
  role: n % 2 ? "assistant" : "user", content: [{ type: "text", text: `${n} ${"word ".repeat(180)}` }], timestamp: n,
}));

async function times(work) {
  const found = [];
  for (let n = 0; n < rounds; n++) {
    const start = performance.now();
    await work();
    found.push(performance.now() - start);
  }
  found.sort((a, b) => a - b);
  return { median: found[found.length >> 1], best: found[0] };
}

const host = await makeHost({ state });
const start = performance.now();
await host.engine.bootstrap({ ...session });
const result = { start: performance.now() - start };
const bridge = host.bridge();
result.empty = await times(() => bridge.call("ping", {}));
const forty = window.slice(-40);
result.fortyBytes = JSON.stringify(forty).length;
result.forty = await times(() => bridge.call("ping", { messages: forty }));
const made = await host.engine.assemble({ ...session, prompt: "next", messages: [], tokenBudget: 100_000 });
result.assembled = { messages: made.messages.length, tokens: made.estimatedTokens };
const long = [...window, ...made.messages];
result.assemble = await times(() => host.engine.assemble({ ...session, prompt: "next", messages: long, tokenBudget: 100_000 }));
await host.close({ keep: true });
console.log(JSON.stringify(result));

// What tools said, as OpenClaw's own transcript has it: one JSON text a line. Its database packs long entries with zstd.
import { DatabaseSync } from "node:sqlite";
import { zstdDecompressSync } from "node:zlib";

const database = new DatabaseSync(process.argv[2], { readOnly: true });
const rows = database.prepare("SELECT event_json, event_zstd FROM transcript_events ORDER BY session_id, seq").all();
for (const { event_json, event_zstd } of rows) {
  const { message } = JSON.parse(event_json ?? zstdDecompressSync(event_zstd).toString("utf8"));
  if (message?.role !== "toolResult") continue;
  const text = [message.content].flat().map((block) => block?.text ?? "").join("\n");
  process.stdout.write(`${JSON.stringify(text)}\n`);
}

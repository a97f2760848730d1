// A program that drives an engine over HTTP with types that were generated from openapi.yaml: it
// starts a run, watches it, signals it, and is told of its end. What does not hold ends it.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

declare const process: { argv: string[] };

type Schemas = components["schemas"];

const [, , baseUrl = "", run = ""] = process.argv;
const client = createClient<paths>({ baseUrl });

function check(holds: unknown, otherwise: unknown): asserts holds {
  if (!holds) throw new Error("it does not hold: " + JSON.stringify(otherwise));
}

/** The messages of a stream of server-sent events, until it ends. */
async function* messages<T>(stream: ReadableStream<Uint8Array>): AsyncGenerator<{ event: string; data: T }> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = new Map(text.slice(0, end).split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
      text = text.slice(end + 2);
      const data = fields.get("data");
      if (data !== undefined) yield { event: fields.get("event") ?? "message", data: JSON.parse(data) as T };
    }
  }
}

const path = { run };

// What all runs do is watched from before this one begins. The first message says to list them.
const watch = await client.GET("/v1/watch", { params: { query: { prefix: run } }, headers: { Accept: "text/event-stream" }, parseAs: "stream" });
check(watch.data, watch.error);
const changes = messages<Schemas["RunChange"] & { lost?: boolean }>(watch.data);
const first = (await changes.next()).value;
check(first && first.data.lost, first);

const started = await client.PUT("/v1/runs/{run}", {
  params: { path },
  body: { workflow: "order", input: { customer: "Zoë" }, labels: { from: "typescript" }, reason: "to try it" },
});
check(started.response.status === 201 && started.data?.status === "running", started.error ?? started.data);
const again = await client.PUT("/v1/runs/{run}", { params: { path }, body: { workflow: "order", input: { customer: "somebody else" } } });
check(again.error?.error.code === "run_exists" && again.error.error.status === 409, again);

const change = (await changes.next()).value;
check(change && change.data.run === run && change.data.labels?.["from"] === "typescript", change);
await changes.return(undefined);

// The stream of its events goes on to its end. When it waits for the payment, that is signalled.
const stream = await client.GET("/v1/runs/{run}/events", { params: { path }, headers: { Accept: "text/event-stream" }, parseAs: "stream" });
check(stream.data, stream.error);
const types: string[] = [];
let end = "";
for await (const { event, data } of messages<Schemas["Event"]>(stream.data)) {
  if (event !== "message") {
    end = event;
    break;
  }
  types.push(data.type);
  if (data.node === "paid" && data.type === "token.waiting") {
    const why = await client.GET("/v1/runs/{run}/why", { params: { path } });
    check(why.data, why.error);
    const acted = await client.POST("/v1/runs/{run}/signals", {
      params: { path },
      body: { name: "payment", payload: { amount: 12 }, reason: "the bank says so" },
    });
    check(acted.data, acted.error);
  }
}
check(end === "end", types);

const ended = await client.GET("/v1/runs/{run}", { params: { path, query: { wait: "30s" } } });
check(ended.data?.status === "completed", ended.error ?? ended.data);
const found = await client.GET("/v1/runs", { params: { query: { label: ["from=typescript"], status: ["completed"] } } });
check(found.data && "runs" in found.data && found.data.runs[0]?.run === run, found);
const none = await client.GET("/v1/runs/{run}", { params: { path: { run: "nothing" } } });
check(none.error?.error.code === "run_not_found", none);

// A schedule is tried and applied, fires by itself and when asked, is paused, resumed, backfilled and deleted.
const id = "hourly", reason = "to try it";
const set = { reason, schedules: [{ id, workflow: { name: "order" }, every: "1h", overlap: "allow" as const, input: { customer: "'Zoë'" } }] };
const tried = await client.PUT("/v1/schedules", { params: { query: { dryRun: "1" } }, body: set });
check(tried.data?.applied === false && tried.data.changes[0]?.kind === "created", tried.error ?? tried.data);
const applied = await client.PUT("/v1/schedules", { body: set });
check(applied.data?.applied, applied.error ?? applied.data);
const schedule = { schedule: id };
const triggered = await client.POST("/v1/schedules/{schedule}/trigger", { params: { path: schedule }, body: { reason } });
const fired = triggered.data?.run ?? "";
check(fired.startsWith("hourly@"), triggered.error ?? triggered.data);
for (const act of ["pause", "resume"] as const) {
  const done = await client.POST(`/v1/schedules/{schedule}/${act}`, { params: { path: schedule }, body: { reason } });
  check(done.data, done.error);
}
const backfilled = await client.POST("/v1/schedules/{schedule}/backfill", {
  params: { path: schedule },
  body: { reason, from: "2026-01-01T00:00:00Z", to: "2026-01-01T02:00:00Z", most: 2 },
});
check(backfilled.data?.firings === 2, backfilled.error ?? backfilled.data);
const standing = await client.GET("/v1/schedules/{schedule}", { params: { path: schedule } });
check(standing.data?.schedule.id === id && standing.data.schedule.every === "1h" && standing.data.next.length === 5 && standing.data.running?.includes(fired), standing.error ?? standing.data);
const events = await client.GET("/v1/schedules/{schedule}/events", { params: { path: schedule, query: {} } });
check(events.data?.events.some((event) => event.kind === "paused" && event.by === "ann" && event.reason === reason), events.error ?? events.data);
const all = await client.GET("/v1/schedules", { params: { query: {} } });
check(all.data && "schedules" in all.data && all.data.schedules.length === 1, all.error ?? all.data);
const deleted = await client.POST("/v1/schedules/{schedule}/delete", { params: { path: schedule }, body: { reason } });
check(deleted.data, deleted.error);
const gone = await client.GET("/v1/schedules/{schedule}", { params: { path: schedule } });
check(gone.error?.error.code === "schedule_not_found", gone);
console.log(JSON.stringify({ output: ended.data.output, types }));

// What TypeScript knows of the client for Node.js.
import { ApiError, Client, GroupClosedError, verify, type Job, type Push, type Topic } from "wakecall";

const client = new Client({ url: "http://127.0.0.1:6789", token: "t", retryFor: 0, fetch });
const push: Push = { id: "1", body: { order: 42 }, delay: "30m", due_at: new Date(), group: "g" };

export async function calls(): Promise<string> {
  const job: Job = await client.push("t", push, { signal: new AbortController().signal });
  for (const one of await client.pushBatch([{ ...push, topic: "t" }])) {
    if (one instanceof ApiError) return one.code;
    if (one.state === "dead") return one.dead_reason ?? "";
  }
  for await (const dead of client.jobs("t", "dead", { status: 500 })) await client.run("t", dead.id);
  const count: number = await client.retryDead("t", { limit: 10, dryRun: true });
  const topic: Topic = await client.topic("t");
  await client.putTopic("t", { ...topic, state: "paused" }, { etag: topic.etag });
  await client.moveGroup("g", { shift: "-1h" });
  await client.work("t", async (leased) => ({ attempt: leased.attempt }));
  verify(["whsec_x"], { "webhook-id": "1" }, new Uint8Array());
  // @ts-expect-error: no such state
  client.jobs("t", "lost");
  // @ts-expect-error: ids or limit
  await client.retryDead("t", {});
  // @ts-expect-error: no such option
  await client.push("t", { dueAt: 1 });
  return job.id + count + String(new GroupClosedError(409, { code: "group_closed" }) instanceof ApiError);
}

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
  await client.patchTopic("t", { ttr: "5s", retry: null, headers: { "X-Old": null }, per_key: null });
  const until: string | undefined = (await client.pauseTopic("t", { reason: "stock count", until: "2h" })).paused_until;
  const deleted: number = await client.deleteDead("t", { ids: [(await client.resumeTopic("t")).name] });
  await client.moveGroup("g", { shift: "-1h" });
  await client.work("t", async (leased) => ({ attempt: leased.attempt }));
  verify(["whsec_x"], { "webhook-id": "1" }, new Uint8Array());
  // @ts-expect-error: no such state
  client.jobs("t", "lost");
  // @ts-expect-error: ids or limit
  await client.retryDead("t", {});
  // @ts-expect-error: not a text
  await client.patchTopic("t", { callback_url: 1 });
  // @ts-expect-error: no such option
  await client.push("t", { dueAt: 1 });
  const closed = new GroupClosedError(409, { code: "group_closed" }) instanceof ApiError;
  return [job.id, count, deleted, until, closed].join();
}

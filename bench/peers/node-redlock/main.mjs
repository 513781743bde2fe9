// node-redlock with its defaults, but for as many tries as it takes. ../README.md says what it is asked to do.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import redlock from "redlock";

const [mode, tasks, span, resource, ...nodes] = process.argv.slice(2);
const Redlock = redlock.default ?? redlock;
const TTL = 30_000;
const now = () => Number(process.hrtime.bigint() / 1000n);

const clients = nodes.map((node) => {
  const [host, port] = node.split(":");
  return new Redis({ host, port: Number(port) });
});
const locks = new Redlock(clients, { retryCount: -1 });
locks.on("error", () => {});
await (await locks.acquire(["warm-up"], TTL)).release();

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
console.log("ready");
await lines.next();
const end = now() + Number(span) * 1000;
const said = [];
let holders = 0;
let violations = 0;

async function apart(task) {
  for (let turn = 0; now() < end; turn++) {
    const begun = now();
    await (await locks.acquire([`${resource}:${task}:${turn}`], TTL)).release();
    said.push(`lock ${now() - begun}`);
  }
}

async function one() {
  let [turns, longest, failures] = [0, 0, 0];
  while (now() < end) {
    const begun = now();
    let lock;
    try {
      const waited = sleep((end - begun) / 1000, "late", { ref: false });
      const asked = locks.acquire([resource], TTL);
      lock = await Promise.race([asked, waited]);
      longest = Math.max(longest, now() - begun);
      if (lock === "late") break;
    } catch {
      failures++;
      continue;
    }
    violations += holders++ > 0;
    turns++;
    await sleep(1);
    holders--;
    await lock.release().catch(() => failures++);
  }
  said.push(`task ${turns} ${longest} ${failures}`);
}

const run = mode === "apart" ? apart : one;
await Promise.all(Array.from({ length: Number(tasks) }, (_, task) => run(task)));
// Ends the process once all of it is written: a pipe takes only so much at once.
const told = [...said, `violations ${violations}`, "end", ""].join("\n");
process.stdout.write(told, () => process.exit(0));

// Takes and releases a lock of node-redlock when it is told to. Arguments: the port of the store, and those
// of the servers that keep the lock.
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import * as ioredis from "ioredis";
import * as library from "redlock";

const Redis = ioredis.Redis ?? ioredis.default;
const Redlock = library.default?.default ?? library.default ?? library.Redlock;
const connect = (port) => new Redis({ host: "127.0.0.1", port: Number(port) });
const [store, ...servers] = process.argv.slice(2).map(connect);

const once = new Redlock(servers, { retryCount: 0 });
const often = new Redlock(servers, { retryCount: 10000, retryDelay: 10, retryJitter: 10 });
once.on("error", () => {});
often.on("error", () => {});

// Keys of an attempt that failed stay for the ttl while a call tries again, and can keep every client out for
// as long as it does. A call that tries once takes them away at its end.
async function turn() {
  for (;;) {
    try {
      return await often.acquire(["interop"], 20_000, { retryCount: 0 });
    } catch {
      await sleep(10 + 10 * Math.random());
    }
  }
}

let held;
for await (const line of createInterface({ input: process.stdin })) {
  const [order, count] = line.split(" ");
  if (order === "try") {
    try {
      held = await once.acquire(["interop"], 600_000);
      console.log("got");
    } catch {
      console.log("held");
    }
  } else if (order === "release") {
    await held.release();
    console.log("released");
  } else if (order === "rounds") {
    for (let round = 0; round < Number(count); round++) {
      const lock = await turn();
      const before = Number((await store.get("n")) ?? 0);
      await sleep(1);
      await store.set("n", before + 1);
      await lock.release();
      await sleep(5);
    }
    console.log("done");
  }
}

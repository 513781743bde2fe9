# Takes and releases a lock of redis-py when it is told to. Arguments: the port of the store, and that of
# the one server that keeps the lock.
import sys
import time

import redis

store = redis.Redis(port=int(sys.argv[1]))
server = redis.Redis(port=int(sys.argv[2]))


def lock(ttl):
    return server.lock("interop", timeout=ttl, sleep=0.005)


held = None
for line in sys.stdin:
    order, *rest = line.split()
    if order == "try":
        held = lock(600)
        print("got" if held.acquire(blocking=False) else "held")
    elif order == "release":
        held.release()
        print("released")
    elif order == "rounds":
        for _ in range(int(rest[0])):
            with lock(20):
                before = int(store.get("n") or 0)
                time.sleep(0.001)
                store.set("n", before + 1)
            time.sleep(0.005)
        print("done")

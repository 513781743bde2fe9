import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson's RedLock with its defaults. ../../../../README.md says what it is asked to do. Redisson deprecates
 * RedLock and advises a lock on one master with replicas. It has no other lock over a majority of masters.
 */
@SuppressWarnings("deprecation")
public class Main {
    /** In microseconds. The virtual machine compiles what runs often: locks get faster for three seconds. */
    static final long WARM_UP = 5_000_000;

    static final AtomicInteger holders = new AtomicInteger();
    static final AtomicInteger violations = new AtomicInteger();
    static final List<RedissonClient> clients = new ArrayList<>();

    static RLock lock(String name) {
        return new RedissonRedLock(clients.stream().map(it -> it.getLock(name)).toArray(RLock[]::new));
    }

    static long micros() {
        return System.nanoTime() / 1000;
    }

    static void apart(String name, long end, List<String> said) {
        for (int turn = 0; micros() < end; turn++) {
            long begun = micros();
            RLock lock = lock(name + ":" + turn);
            lock.lock();
            lock.unlock();
            said.add("lock " + (micros() - begun));
        }
    }

    static void one(String name, long end, List<String> said) {
        long turns = 0, longest = 0, failures = 0;
        while (micros() < end) {
            long begun = micros();
            RLock lock = lock(name);
            boolean taken = false;
            try {
                taken = lock.tryLock(Math.max(1, (end - begun) / 1000), TimeUnit.MILLISECONDS);
            } catch (InterruptedException | RuntimeException failure) {
                failures++;
            }
            longest = Math.max(longest, micros() - begun);
            if (!taken) {
                continue;
            }
            if (holders.incrementAndGet() > 1) {
                violations.incrementAndGet();
            }
            turns++;
            try {
                Thread.sleep(1);
            } catch (InterruptedException none) {
                Thread.currentThread().interrupt();
            }
            holders.decrementAndGet();
            try {
                lock.unlock();
            } catch (RuntimeException failure) {
                failures++;
            }
        }
        said.add("task " + turns + " " + longest + " " + failures);
    }

    /** What all tasks said. */
    static String run(boolean apart, int tasks, String resource, long span) throws InterruptedException {
        long end = micros() + span;
        List<List<String>> said = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            List<String> lines = new ArrayList<>();
            said.add(lines);
            String own = resource + ":" + task;
            threads.add(new Thread(() -> {
                if (apart) {
                    apart(own, end, lines);
                } else {
                    one(resource, end, lines);
                }
            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        StringBuilder all = new StringBuilder();
        said.forEach(lines -> lines.forEach(line -> all.append(line).append('\n')));
        return all.toString();
    }

    public static void main(String[] arguments) throws Exception {
        boolean apart = arguments[0].equals("apart");
        int tasks = Integer.parseInt(arguments[1]);
        long span = Long.parseLong(arguments[2]) * 1000;
        String resource = arguments[3];
        for (int node = 4; node < arguments.length; node++) {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://" + arguments[node]);
            clients.add(Redisson.create(config));
        }
        run(apart, tasks, resource + ":warm-up", WARM_UP);

        System.out.println("ready");
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        String said = run(apart, tasks, resource, span);
        System.out.println(said + "violations " + violations + "\nend");
        System.exit(0);
    }
}

//! What the tests share: orders, time and clients.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use redlock_core::{MemoryNode, Redlock, sync::Runtime};
use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
    thread,
};

/// So many orders are tried in each way of choosing them, unless `REDLOCK_ORDERS` says otherwise.
const ORDERS: usize = 2000;

/// A span that is longer than the time that tests let pass, unless they say so.
const LONG: Duration = Duration::from_secs(1);

/// In how many steps time passes.
const STEPS: u32 = 400;

pub(crate) type Thread = Box<dyn FnOnce() + Send>;

/// Runs a test in many orders.
pub(crate) fn in_any_order(test: impl Fn(&World) + Send + Sync + Clone + 'static) {
    let orders = std::env::var("REDLOCK_ORDERS").map_or(ORDERS, |orders| orders.parse().unwrap());
    let mut config = Config::new();
    config.stack_size = 0x10_0000;
    config.failure_persistence = FailurePersistence::None;
    let random: Box<dyn Scheduler + Send> = Box::new(RandomScheduler::new(orders));
    let schedulers: [Box<dyn Scheduler + Send>; 2] =
        [random, Box::new(PctScheduler::new(3, orders))];
    for scheduler in schedulers {
        let test = test.clone();
        let time = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let time = Arc::new(time);
        let _entered = time.enter();
        let time = Arc::clone(&time);
        Runner::new(scheduler, config.clone()).run(move || {
            let world = World { time: Arc::clone(&time), runtimes: Arc::default() };
            test(&world);
            world.end();
        });
    }
}

/// Time, which stands still.
#[derive(Clone)]
pub(crate) struct World {
    time: Arc<tokio::runtime::Runtime>,
    runtimes: Arc<Mutex<Vec<Runtime>>>,
}

/// A client whose nodes are connected, and the runtime of its tasks.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) redlock: Redlock,
    pub(crate) runtime: Runtime,
}

impl World {
    /// Lets time pass, whatever could happen before.
    pub(crate) fn pass(&self, span: Duration) {
        self.time.block_on(tokio::time::advance(span));
    }

    /// Runs each on a thread of its own, while time passes: `limit` at most until all are done.
    pub(crate) fn pass_until_done(&self, limit: Duration, threads: Vec<Thread>) {
        let left = Arc::new(AtomicUsize::new(threads.len()));
        let threads = threads.into_iter().map(|run| {
            let left = Arc::clone(&left);
            thread::spawn(move || {
                run();
                left.fetch_sub(1, SeqCst);
            })
        });
        let threads: Vec<_> = threads.collect();
        for _ in 0..STEPS {
            if left.load(SeqCst) == 0 {
                return threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
            self.step(limit / STEPS);
        }
        panic!("{} of {} threads wait in vain", left.load(SeqCst), threads.len());
    }

    /// Lets time pass once everything has happened that can happen without that, as far as chance
    /// will have it.
    pub(crate) fn step(&self, span: Duration) {
        (0..50).for_each(|_| thread::yield_now());
        self.pass(span);
    }

    /// Another runtime.
    pub(crate) fn runtime(&self) -> Runtime {
        let runtime = Runtime::new();
        self.runtimes.lock().unwrap().push(runtime.clone());
        runtime
    }

    /// Ends all runtimes, and waits for the ends of their tasks.
    fn end(&self) {
        let runtimes = std::mem::take(&mut *self.runtimes.lock().unwrap());
        for runtime in runtimes {
            runtime.end();
            while !runtime.is_empty() {
                thread::yield_now();
            }
        }
    }

    /// The ttl of all locks.
    pub(crate) fn ttl(&self) -> Duration {
        LONG * 30
    }

    /// The shortest ttl that works.
    pub(crate) fn shortest_ttl(&self) -> Duration {
        LONG * 3
    }

    /// A client that has not connected yet.
    pub(crate) fn new_client(&self, nodes: &[MemoryNode]) -> Client {
        let redlock = Redlock::builder()
            .nodes(nodes)
            .node_timeout(LONG)
            .connect_timeout(LONG)
            .ttl(self.ttl())
            .wait(self.ttl())
            .build()
            .unwrap();
        Client { redlock, runtime: self.runtime() }
    }

    pub(crate) fn client(&self, nodes: &[MemoryNode]) -> Client {
        let client = self.new_client(nodes);
        let connected = Arc::new(AtomicBool::new(false));
        let connecting = thread::spawn({
            let (client, connected) = (client.clone(), Arc::clone(&connected));
            move || {
                client.runtime.block_on(async {
                    client.redlock.lock("warm").await.unwrap().release().await.unwrap();
                });
                connected.store(true, SeqCst);
            }
        });
        // An in-memory node takes a moment to connect.
        while !connected.load(SeqCst) {
            self.pass(Duration::from_millis(1));
            thread::yield_now();
        }
        connecting.join().unwrap();
        client
    }
}

impl Client {
    /// Runs something on this thread, in the runtime of the client.
    pub(crate) fn run<T>(&self, work: impl AsyncFnOnce(&Redlock) -> T) -> T {
        self.runtime.block_on(work(&self.redlock))
    }
}

/// Runs each on a thread of its own, and waits for all of them.
pub(crate) fn all<F: FnOnce() + Send + 'static>(threads: impl IntoIterator<Item = F>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

pub(crate) fn nodes(count: usize) -> Vec<MemoryNode> {
    (0..count).map(|_| MemoryNode::new()).collect()
}

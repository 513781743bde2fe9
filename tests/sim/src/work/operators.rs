//! What operators do, and the jobs to which replicas come.

use std::sync::Arc;

use redlock_core::LockError;

use super::{
    super::{
        fenced, looks,
        plan::{Deed, Job, Operation},
        report::Oddity,
        world::sleep,
    },
    Client, Worker, World,
};

/// The tasks of operators have this number.
const OPERATOR: usize = 90;

/// The tasks that come to the ticks of jobs have this number.
const REPLICA: usize = 91;

/// An operator works with a client.
pub(crate) async fn operator(world: Arc<World>, client: Arc<Client>, operations: Vec<Operation>) {
    let worker = Worker { world, client, number: OPERATOR };
    for Operation { after, key, deed } in operations {
        sleep(after).await;
        match deed {
            Deed::Inspect => worker.inspect(key).await,
            Deed::ForceRelease | Deed::ForceReleaseNow => worker.take_away(key, deed).await,
        }
    }
}

/// A client comes to the ticks of a job. One that started late leaves out what is over.
pub(crate) async fn replica(world: Arc<World>, client: Arc<Client>, jobs: Vec<Job>) {
    let worker = Worker { world, client, number: REPLICA };
    let started = worker.world.now();
    for Job { at, take, crash } in jobs {
        if started > at + take.min_hold {
            continue;
        }
        sleep(at.saturating_sub(worker.world.now())).await;
        if let Some(after) = crash {
            let client = Arc::clone(&worker.client);
            worker.world.later(after, move |world| world.crash_unless_over(&client));
        }
        worker.world.log.odd(Oddity::Tick);
        worker.take(&take).await;
    }
}

impl Worker {
    async fn inspect(&self, key: usize) {
        let Self { world, client, .. } = self;
        let (begun, ledger) = (world.now(), &world.ledger);
        let before = ledger.sure_holder(key);
        let redlock = client.redlock();
        let status = self.asked("inspect", redlock.inspect(format!("k{key}"))).await;
        let status = match status {
            Ok(status) => status,
            Err(error) => return self.told(&error),
        };
        world.log.odd(Oddity::Inspected);
        let holder = status.holder().map_or(u64::MAX, |name| name[1..].parse().unwrap_or(0));
        self.say(62, holder, || format!("sees of k{key}: {status:?}"));
        // A node that forgets a lock is asked to set it again, later.
        let forgets = fenced::loses_locks(&world.plan) || world.plan_of(client).has_twin();
        let after = ledger.sure_holder(key);
        let holder = before.filter(|it| !forgets && Some(*it) == after).map(|(_, client)| client);
        for wrong in looks::judge(&status, &ledger.looks(client.number, key, begun), holder) {
            self.violation(format!("was told of k{key} what is wrong: {wrong}"));
        }
    }

    async fn take_away(&self, key: usize, deed: Deed) {
        let Self { world, client, .. } = self;
        world.ledger.operates(key, deed == Deed::ForceReleaseNow);
        world.log.odd(Oddity::TakenAway);
        self.say(63, key as u64, || format!("{deed:?} of k{key}"));
        let (redlock, resource) = (client.redlock(), format!("k{key}"));
        let taken = if deed == Deed::ForceRelease {
            self.asked("force_release", redlock.force_release(resource)).await
        } else {
            self.asked("force_release_now", redlock.force_release_now(resource)).await
        };
        match taken {
            Ok(()) => self.say(64, key as u64, || format!("has taken k{key} away")),
            Err(error) => self.refused(&error),
        }
    }

    async fn asked<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        let limit = self.world.plan.settings.connect_timeout + self.round();
        self.bounded(what, limit, call).await
    }
}

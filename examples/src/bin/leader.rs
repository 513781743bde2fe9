//! Three replicas of one service, of which one leads. The leader works for a while and resigns; the
//! next replica leads as soon as the role is free. Each term has a fencing token, larger than that of
//! every term before: the store that the leader writes to can refuse a leader that is too late.

use std::{error::Error, ops::ControlFlow, time::Duration};

use redlock_core::{LockError, LockHandle, Redlock};
use redlock_examples::connect;
use tokio::time::sleep;

/// Leads twice.
async fn replica(name: &str, locks: Redlock) -> Result<usize, LockError> {
    let mut terms = 0;
    locks
        .lead("scheduler")
        .run(|term: LockHandle| {
            terms += 1;
            async move {
                if let Some(token) = term.fencing_token() {
                    println!("replica {name} leads, token {token}");
                }
                sleep(Duration::from_millis(200)).await;
                if terms < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(terms) }
            }
        })
        .await
}

/// Another client of the same nodes, as another process has it.
async fn another(locks: &Redlock) -> Result<Redlock, LockError> {
    let nodes = locks.memory_nodes();
    if nodes.is_empty() { connect().await } else { Redlock::builder().nodes(&nodes).build() }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let a = connect().await?;
    let (b, c) = (another(&a).await?, another(&a).await?);
    let led = tokio::try_join!(
        replica("a", a.clone()),
        replica("b", b.clone()),
        replica("c", c.clone()),
    )?;
    println!("terms: {led:?}");
    for locks in [a, b, c] {
        locks.shutdown(Duration::from_secs(1)).await;
    }
    Ok(())
}

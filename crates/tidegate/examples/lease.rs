//! A lease by name, and what its fence is for: a holder that was stopped for too long wakes up,
//! goes on as if nothing had happened, and is refused by what it writes to.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use tidegate::{
    lease::{Acquire, Lease, Leases, Renew},
    store::{ManualClock, MemoryStore},
};

/// How long a holder may be silent before somebody else takes over.
const TTL: Duration = Duration::from_secs(30);

/// What the lease protects. It remembers the greatest fence that it has seen; in a database this
/// is a column, compared in the transaction that writes.
#[derive(Default)]
struct Ledger {
    fence: i64,
}

impl Ledger {
    fn write(&mut self, lease: &Lease, line: &str) -> bool {
        let late = lease.fence < self.fence;
        self.fence = self.fence.max(lease.fence);
        println!(
            "{line}: {}",
            if late { "refused, a newer holder has written" } else { "written" }
        );
        !late
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A clock of our own, so that the example does not wait. A program gives `SystemClock`, or
    // opens a `SqliteStore` or `PostgresStore` instead.
    let clock = Arc::new(ManualClock::default());
    let leases: Arc<dyn Leases> = Arc::new(MemoryStore::new(clock.clone()));
    let mut ledger = Ledger::default();

    let first = leases.acquire("ledger", "one", TTL).await?.acquired().ok_or("it is free")?;
    assert!(ledger.write(&first, "one begins"));
    match leases.acquire("ledger", "two", TTL).await? {
        Acquire::Held { by, left } => println!("two waits: held by {by} for {left:?}"),
        Acquire::Acquired(_) => return Err("there is one holder at a time".into()),
    }

    println!("-- one is stopped for a minute");
    clock.advance_ms(60_000);
    let second = leases.acquire("ledger", "two", TTL).await?.acquired().ok_or("its time is up")?;
    assert!(ledger.write(&second, "two begins"));

    println!("-- one wakes up");
    assert!(!ledger.write(&first, "one goes on"));
    assert_eq!(leases.renew(&first, TTL).await?, Renew::Lost);
    assert!(!leases.release(&first).await?, "it has nothing to give back");

    assert!(ledger.write(&second, "two ends"));
    assert!(leases.release(&second).await?);
    Ok(())
}

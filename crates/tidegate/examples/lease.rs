//! A named lease and the purpose of its fence: a holder that was suspended past its TTL resumes,
//! still believes it holds the lease, and is refused by the resource it writes to.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use tidegate::{
    ManualClock, MemoryStore,
    lease::{Acquire, Lease, Leases, Renew},
};

/// The time without a renewal after which another holder may take the lease.
const TTL: Duration = Duration::from_secs(30);

/// The resource that the lease protects. It keeps the greatest fence it has seen; in a database
/// the fence is a column, compared in the transaction that writes.
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
    // A manual clock, so that the example does not wait. A program passes `SystemClock`, or opens
    // a `SqliteStore` or `PostgresStore` instead.
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
    assert!(!ledger.write(&first, "one continues"));
    assert_eq!(leases.renew(&first, TTL).await?, Renew::Lost);
    assert!(!leases.release(&first).await?, "the lease is no longer its own");

    assert!(ledger.write(&second, "two ends"));
    assert!(leases.release(&second).await?);
    Ok(())
}

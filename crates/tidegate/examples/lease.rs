//! A named lease, and why it has a fence. A holder is suspended for longer than the lease's TTL. It
//! resumes and still believes that it holds the lease, but the resource that it writes to refuses
//! its old fence.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, sync::Arc, time::Duration};

use tidegate::{
    ManualClock, MemoryStore,
    lease::{Acquire, Lease, Leases, Renew},
};

/// Time without a renewal after which another holder may take the lease.
const TTL: Duration = Duration::from_secs(30);

/// The resource that the lease protects. It stores the highest fence that it has seen. In a
/// database, store the fence in a column and compare it in the transaction that writes.
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
    // With a manual clock the example need not wait. A real program passes `SystemClock`, or uses a
    // `SqliteStore` or `PostgresStore`.
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
    assert!(!leases.release(&first).await?, "the first holder released a lease that it had lost");

    assert!(ledger.write(&second, "two ends"));
    assert!(leases.release(&second).await?);
    Ok(())
}

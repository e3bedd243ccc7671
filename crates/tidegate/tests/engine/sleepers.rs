//! Many waiting runs that wake at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tidegate::{Ctx, Workflow, new_event, testing::TestHarness};

use crate::words::{secs, states};

const SLEEPERS: usize = 10_000;

/// spec waits, G2: ten thousand runs that wake at the same instant all continue, each once.
async fn ten_thousand_wake_at_once(harness: TestHarness) {
    let woken: Arc<Vec<AtomicU32>> = Arc::new((0..SLEEPERS).map(|_| AtomicU32::new(0)).collect());
    let (count, at) = (woken.clone(), harness.now().plus_ms(3_600_000));
    let nap = Workflow::new("nap", move |ctx: Ctx, n: usize| {
        let count = count.clone();
        async move {
            ctx.sleep_until("nap", at).await?;
            let wake = ctx.step("wake", || async { Ok(count[n].fetch_add(1, Ordering::SeqCst)) });
            wake.await
        }
    });
    let engine = harness.engine().workflow(nap).start().await.unwrap();
    for first in (0..SLEEPERS).step_by(500) {
        let naps = (first..first + 500).map(|n| new_event("nap", n).unwrap());
        engine.send_all(naps.collect()).await.unwrap();
    }
    harness.advance(secs(3_599)).await;
    assert_eq!(states(&harness, "nap").await, vec!["waiting"; SLEEPERS]);
    assert_eq!(engine.driven(), 0);
    harness.advance(secs(1)).await;
    assert_eq!(states(&harness, "nap").await, vec!["completed"; SLEEPERS]);
    assert!(woken.iter().all(|times| times.load(Ordering::SeqCst) == 1));
}

#[tokio::test]
async fn ten_thousand_wake_at_once_on_memory() {
    ten_thousand_wake_at_once(crate::stores::memory().await.unwrap()).await;
}

#[tokio::test]
async fn ten_thousand_wake_at_once_on_sqlite() {
    ten_thousand_wake_at_once(crate::stores::sqlite().await.unwrap()).await;
}

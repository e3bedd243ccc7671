//! Contract of the stores of named leases: memory, SQLite, PostgreSQL and Redis.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Barrier},
    time::Duration,
};

use tidegate_store::{
    StoreError,
    lease::{Acquire, LONGEST_NAME, LONGEST_TTL, Lease, Leases, Renew},
};
use tokio::{runtime::Handle, task::spawn_blocking};

/// A location for a lease store. Its resources are released when the value is dropped.
pub trait Place: Sync {
    /// Opens the lease store. The first time it is empty; later it has the leases from before.
    fn open(&self) -> impl Future<Output = Arc<dyn Leases>> + Send;

    /// Advances the clock of the leases.
    fn pass(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Generates the tests that all lease stores must pass.
///
/// Takes the name of an `async fn() -> Option<impl Place>`. With `None` the test is skipped, with a
/// printed message.
#[macro_export]
macro_rules! lease_contract {
    ($place:ident) => {
        $crate::contract_cases!($place, durable, lease:
            a_lease_says_what_was_acquired,
            whoever_comes_second_is_told_who_has_it_and_for_how_long,
            of_many_acquirers_exactly_one_wins,
            names_do_not_stand_in_each_others_way,
            an_expired_lease_can_be_taken,
            a_renewed_lease_lasts_from_its_renewal,
            a_renewal_may_ask_for_less,
            a_released_lease_can_be_taken_at_once,
            fences_grow_over_release_expiry_and_acquiring_anew,
            whoever_has_it_may_acquire_it_anew,
            an_older_lease_of_the_same_holder_is_lost,
            a_late_holder_can_neither_renew_nor_release,
            an_expired_lease_is_lost_though_nobody_took_it,
            a_stranger_can_neither_renew_nor_release,
            a_resource_that_checks_the_fence_refuses_a_late_holder,
            a_time_that_makes_no_sense_is_refused,
            a_name_that_makes_no_sense_is_refused,
            any_history_goes_as_the_model_says,
        );
    };
}

/// Lease time, longer than any test, because the clock of a server cannot be stopped.
pub(super) const TTL: Duration = Duration::from_mins(1);

/// Acquires a free lease.
pub(super) async fn acquired(leases: &Arc<dyn Leases>, name: &str, holder: &str) -> Lease {
    match leases.acquire(name, holder, TTL).await.unwrap() {
        Acquire::Acquired(lease) => lease,
        Acquire::Held { by, .. } => panic!("{name} should be free for {holder}, but {by} holds it"),
    }
}

/// Tries to acquire a lease that another holder has; returns that holder.
pub(super) async fn held_by(leases: &Arc<dyn Leases>, name: &str, holder: &str) -> String {
    match leases.acquire(name, holder, TTL).await.unwrap() {
        Acquire::Acquired(lease) => panic!("the lease should be held by another holder: {lease:?}"),
        Acquire::Held { by, .. } => by,
    }
}

async fn renewed(leases: &Arc<dyn Leases>, lease: &Lease) -> Lease {
    match leases.renew(lease, TTL).await.unwrap() {
        Renew::Renewed(lease) => lease,
        Renew::Lost => panic!("the lease should be valid: {lease:?}"),
    }
}

/// Asserts that neither a renewal nor a release of this lease has an effect.
async fn is_lost(leases: &Arc<dyn Leases>, lease: &Lease) {
    assert_eq!(leases.renew(lease, TTL).await.unwrap(), Renew::Lost, "{lease:?}");
    assert!(!leases.release(lease).await.unwrap(), "{lease:?}");
}

/// A lease has its name, its holder and a positive fence.
pub async fn a_lease_says_what_was_acquired(place: &impl Place) {
    let leases = place.open().await;
    let lease = acquired(&leases, "report/2026 März", "worker:1").await;
    assert_eq!((lease.name.as_str(), lease.holder.as_str()), ("report/2026 März", "worker:1"));
    assert!(lease.fence > 0, "{lease:?}");
    let again = renewed(&leases, &lease).await;
    assert!(
        again.until >= lease.until,
        "the renewal shortened the lease: {again:?} after {lease:?}"
    );
    assert_eq!(again, Lease { until: again.until, ..lease });
}

/// spec B170: a refused caller gets the holder and the remaining time, so that it can decide
/// whether to wait.
pub async fn whoever_comes_second_is_told_who_has_it_and_for_how_long(place: &impl Place) {
    let leases = place.open().await;
    acquired(&leases, "a", "one").await;
    place.pass(TTL / 2).await;
    match leases.acquire("a", "two", TTL).await.unwrap() {
        Acquire::Held { by, left } => {
            assert_eq!(by, "one");
            assert!(left <= TTL / 2 && left > TTL / 4, "{left:?}");
        }
        Acquire::Acquired(lease) => panic!("the lease should be held by another holder: {lease:?}"),
    }
}

/// spec B175, B176: of many threads that acquire a lease at the same time, exactly one gets it.
pub async fn of_many_acquirers_exactly_one_wins(place: &impl Place) {
    let leases = place.open().await;
    race(&vec![leases; 16]).await;
}

/// Acquires the same name on all stores at once, for several rounds.
pub(super) async fn race(everyone: &[Arc<dyn Leases>]) {
    let mut last = 0;
    for round in 0..8 {
        let together = Arc::new(Barrier::new(everyone.len()));
        let asking = everyone.iter().enumerate().map(|(n, leases)| {
            let (leases, together) = (leases.clone(), together.clone());
            let runtime = Handle::current();
            spawn_blocking(move || {
                together.wait();
                runtime.block_on(leases.acquire("one", &n.to_string(), TTL)).unwrap()
            })
        });
        let (mut won, mut reply) = (Vec::new(), Vec::new());
        for answer in asking.collect::<Vec<_>>() {
            match answer.await.unwrap() {
                Acquire::Acquired(lease) => won.push(lease),
                Acquire::Held { by, .. } => reply.push(by),
            }
        }
        assert_eq!(won.len(), 1, "round {round}: not exactly one store got the lease: {won:?}");
        assert!(
            reply.iter().all(|by| *by == won[0].holder),
            "the others got the wrong holder: {reply:?}, but {won:?}"
        );
        assert!(won[0].fence > last, "{} after {last}", won[0].fence);
        last = won[0].fence;
        assert!(everyone[0].release(&won[0]).await.unwrap());
    }
}

/// Similar names are different leases.
pub async fn names_do_not_stand_in_each_others_way(place: &impl Place) {
    let leases = place.open().await;
    let names = ["a", "A", "a ", "a:b", "a{b}", "ä", "%", "*"];
    let mut all = Vec::new();
    for name in names {
        all.push(acquired(&leases, name, name).await);
    }
    assert!(leases.release(&all[0]).await.unwrap());
    for (name, lease) in names.iter().zip(&all).skip(1) {
        assert_eq!(held_by(&leases, name, "another").await, *name);
        assert!(leases.release(lease).await.unwrap());
    }
}

/// spec B173, N59: the lease is free exactly at its expiry.
pub async fn an_expired_lease_can_be_taken(place: &impl Place) {
    let leases = place.open().await;
    acquired(&leases, "a", "one").await;
    place.pass(TTL / 2).await;
    assert_eq!(held_by(&leases, "a", "two").await, "one");
    place.pass(TTL / 2).await;
    acquired(&leases, "a", "two").await;
    assert_eq!(held_by(&leases, "a", "one").await, "two");
}

/// A renewed lease lasts for its whole time from the renewal on.
pub async fn a_renewed_lease_lasts_from_its_renewal(place: &impl Place) {
    let leases = place.open().await;
    let mut lease = acquired(&leases, "a", "one").await;
    for _ in 0..3 {
        place.pass(TTL / 2).await;
        lease = renewed(&leases, &lease).await;
    }
    place.pass(TTL / 2).await;
    assert_eq!(held_by(&leases, "a", "two").await, "one");
    place.pass(TTL / 2).await;
    acquired(&leases, "a", "two").await;
}

/// A holder may shorten its lease by a renewal.
pub async fn a_renewal_may_ask_for_less(place: &impl Place) {
    let leases = place.open().await;
    let lease = acquired(&leases, "a", "one").await;
    let shorter = leases.renew(&lease, TTL / 2).await.unwrap();
    assert!(matches!(shorter, Renew::Renewed(_)), "{shorter:?}");
    place.pass(TTL / 2).await;
    acquired(&leases, "a", "two").await;
}

/// A release frees the lease before its expiry.
pub async fn a_released_lease_can_be_taken_at_once(place: &impl Place) {
    let leases = place.open().await;
    let lease = acquired(&leases, "a", "one").await;
    assert!(leases.release(&lease).await.unwrap());
    is_lost(&leases, &lease).await;
    acquired(&leases, "a", "two").await;
}

/// The next lease of a name has a greater fence, in whatever way the previous one ended.
pub async fn fences_grow_over_release_expiry_and_acquiring_anew(place: &impl Place) {
    let leases = place.open().await;
    let mut last = 0;
    for n in 0..12 {
        let lease = acquired(&leases, "a", if n % 4 == 0 { "one" } else { "two" }).await;
        assert!(lease.fence > last, "{} after {last}", lease.fence);
        last = lease.fence;
        match n % 4 {
            0 => assert!(leases.release(&lease).await.unwrap()),
            3 => place.pass(TTL).await,
            _ => assert_eq!(
                renewed(&leases, &lease).await.fence,
                last,
                "the renewal changed the fence"
            ),
        }
    }
}

/// spec N59: the holder may acquire its lease again, because it may not have got the answer, or
/// have been restarted.
pub async fn whoever_has_it_may_acquire_it_anew(place: &impl Place) {
    let leases = place.open().await;
    acquired(&leases, "a", "one").await;
    place.pass(TTL / 2).await;
    acquired(&leases, "a", "one").await;
    place.pass(TTL / 2).await;
    assert_eq!(
        held_by(&leases, "a", "two").await,
        "one",
        "the holder must have its whole time again"
    );
}

/// After a restart of its holder, a lease from before the restart is invalid, so that a late call
/// cannot release the new one.
pub async fn an_older_lease_of_the_same_holder_is_lost(place: &impl Place) {
    let leases = place.open().await;
    let older = acquired(&leases, "a", "one").await;
    let newer = acquired(&leases, "a", "one").await;
    is_lost(&leases, &older).await;
    assert_eq!(held_by(&leases, "a", "two").await, "one");
    assert!(leases.release(&newer).await.unwrap());
}

/// spec B174, B177: a holder whose lease expired cannot renew or release the lease of the next
/// holder.
pub async fn a_late_holder_can_neither_renew_nor_release(place: &impl Place) {
    let leases = place.open().await;
    let late = acquired(&leases, "a", "one").await;
    place.pass(TTL).await;
    let taken = acquired(&leases, "a", "two").await;
    is_lost(&leases, &late).await;
    assert_eq!(held_by(&leases, "a", "one").await, "two");
    renewed(&leases, &taken).await;
    assert!(leases.release(&taken).await.unwrap());
}

/// An expired lease cannot be renewed, even if no other holder has taken it.
pub async fn an_expired_lease_is_lost_though_nobody_took_it(place: &impl Place) {
    let leases = place.open().await;
    let late = acquired(&leases, "a", "one").await;
    place.pass(TTL).await;
    is_lost(&leases, &late).await;
    acquired(&leases, "a", "two").await;
}

/// spec B177: a lease with another holder, another fence or another name cannot be renewed or
/// released.
pub async fn a_stranger_can_neither_renew_nor_release(place: &impl Place) {
    let leases = place.open().await;
    let lease = acquired(&leases, "a", "one").await;
    is_lost(&leases, &Lease { holder: "two".to_owned(), ..lease.clone() }).await;
    is_lost(&leases, &Lease { fence: lease.fence + 1, ..lease.clone() }).await;
    is_lost(&leases, &Lease { fence: lease.fence - 1, ..lease.clone() }).await;
    is_lost(&leases, &Lease { name: "b".to_owned(), ..lease.clone() }).await;
    assert_eq!(held_by(&leases, "a", "two").await, "one");
    assert!(leases.release(&lease).await.unwrap());
}

/// A resource protected by a lease: stores the greatest fence that it has seen.
#[derive(Debug, Default)]
struct Ledger {
    fence: i64,
    lines: Vec<&'static str>,
}

impl Ledger {
    fn write(&mut self, lease: &Lease, line: &'static str) -> Result<(), &'static str> {
        if lease.fence < self.fence {
            return Err("a newer holder has written");
        }
        self.fence = lease.fence;
        self.lines.push(line);
        Ok(())
    }
}

/// spec B174: a holder that does not notice the end of its lease has a smaller fence than the next
/// one, so the resource can refuse its writes.
pub async fn a_resource_that_checks_the_fence_refuses_a_late_holder(place: &impl Place) {
    let leases = place.open().await;
    let mut ledger = Ledger::default();
    let first = acquired(&leases, "ledger", "one").await;
    ledger.write(&first, "one begins").unwrap();
    // The first holder is stopped in the middle of its work, for longer than its lease.
    place.pass(TTL).await;
    let second = acquired(&leases, "ledger", "two").await;
    ledger.write(&second, "two begins").unwrap();
    assert_eq!(ledger.write(&first, "one goes on"), Err("a newer holder has written"));
    ledger.write(&second, "two ends").unwrap();
    assert_eq!(ledger.lines, ["one begins", "two begins", "two ends"]);
}

/// spec N58: a lease time out of range is refused; the error names the rule and the value.
pub async fn a_time_that_makes_no_sense_is_refused(place: &impl Place) {
    let leases = place.open().await;
    let lease = acquired(&leases, "a", "one").await;
    let too_short = Duration::from_micros(999);
    let too_long = LONGEST_TTL + Duration::from_millis(1);
    for ttl in [Duration::ZERO, too_short, too_long, Duration::MAX] {
        for refused in [
            leases.acquire("b", "one", ttl).await.map(drop_acquire),
            leases.renew(&lease, ttl).await.map(drop_renew),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::Config(_)), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("must be from 1ms to 24 h"), "{text}");
            assert!(text.contains(&format!("got {ttl:?}")), "{text}");
        }
    }
    renewed(&leases, &lease).await;
    for ttl in [Duration::from_millis(1), LONGEST_TTL] {
        assert!(leases.acquire("b", "one", ttl).await.unwrap().acquired().is_some(), "{ttl:?}");
    }
}

fn drop_acquire(_: Acquire) {}

fn drop_renew(_: Renew) {}

/// All lease stores accept and refuse the same names, so that one store can replace another.
pub async fn a_name_that_makes_no_sense_is_refused(place: &impl Place) {
    let leases = place.open().await;
    let long = "a".repeat(LONGEST_NAME + 1);
    for bad in ["", "a\0b", "a\nb", &long] {
        for (name, holder) in [(bad, "one"), ("a", bad)] {
            let error = leases.acquire(name, holder, TTL).await.unwrap_err();
            assert!(matches!(error, StoreError::Config(_)), "{error:?}");
            let renewal = Lease {
                name: name.to_owned(),
                holder: holder.to_owned(),
                fence: 1,
                until: tidegate_core::time::Timestamp::default(),
            };
            assert!(leases.renew(&renewal, TTL).await.is_err(), "{renewal:?}");
            assert!(leases.release(&renewal).await.is_err(), "{renewal:?}");
        }
    }
    let longest = &long[1..];
    acquired(&leases, longest, longest).await;
}

/// A long random history of all operations has the same outcomes as a small model.
pub async fn any_history_goes_as_the_model_says(place: &impl Place) {
    let leases = place.open().await;
    for seed in 1..=4 {
        history(place, &leases, seed).await;
    }
}

/// Plays one random history. No lease expires exactly at the time of a call, because the clock of a
/// server goes on during the test.
async fn history(place: &impl Place, leases: &Arc<dyn Leases>, seed: u64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let unit = Duration::from_secs(100);
    let mut now = Duration::ZERO;
    // The current lease of each name, and its expiry.
    let mut model: BTreeMap<String, (Lease, Duration)> = BTreeMap::new();
    let mut all: Vec<Lease> = Vec::new();
    for step in 0..120 {
        let (name, holder) = (format!("{seed}/{}", draw(3)), draw(3).to_string());
        let ttl = unit / 2 + unit * u32::try_from(draw(3)).unwrap();
        let some = all.get(usize::try_from(draw(all.len().max(1) as u64)).unwrap()).cloned();
        let good = |lease: &Lease, model: &BTreeMap<String, (Lease, Duration)>| {
            model
                .get(&lease.name)
                .is_some_and(|(held, until)| held.fence == lease.fence && *until > now)
        };
        let reply = format!("seed {seed}, step {step}");
        match (draw(4), some) {
            (0, _) => {
                place.pass(unit).await;
                now += unit;
            }
            (1, Some(lease)) => {
                let outcome = leases.renew(&lease, ttl).await.unwrap();
                assert_eq!(matches!(outcome, Renew::Renewed(_)), good(&lease, &model), "{reply}");
                if let Renew::Renewed(lease) = outcome {
                    model.insert(lease.name.clone(), (lease, now + ttl));
                }
            }
            (2, Some(lease)) => {
                let outcome = leases.release(&lease).await.unwrap();
                assert_eq!(outcome, good(&lease, &model), "{reply}");
                if outcome {
                    model.remove(&lease.name);
                }
            }
            _ => {
                let held = model.get(&name).filter(|(_, until)| *until > now);
                match (leases.acquire(&name, &holder, ttl).await.unwrap(), held) {
                    (Acquire::Held { by, .. }, Some((lease, _))) if lease.holder != holder => {
                        assert_eq!(by, lease.holder, "{reply}");
                    }
                    (Acquire::Acquired(lease), held)
                        if held.is_none_or(|(held, _)| held.holder == holder) =>
                    {
                        let before = all.iter().filter(|it| it.name == name).map(|it| it.fence);
                        assert!(
                            before.max() < Some(lease.fence),
                            "{reply}: the fence is not greater than before: {lease:?}"
                        );
                        all.push(lease.clone());
                        model.insert(name, (lease, now + ttl));
                    }
                    (answer, held) => panic!("{reply}: got {answer:?}, but the model has {held:?}"),
                }
            }
        }
    }
}

//! Tests of reactions: spec B194–B217, B222, N62–N71.

mod definitions;
mod fairness;
mod random;
mod repairs;

use expect_test::expect;

use super::*;
use crate::{
    draft::Draft,
    row::{EngineId, RowKey, Subscription},
    testing::{World, ws},
    time::Timestamp,
};

const ANN: EngineId = 1;
const BOB: EngineId = 2;

/// One reaction and the streams that it follows.
struct Scene {
    world: World,
    reaction: Reaction,
}

impl Scene {
    fn new(reaction: Reaction) -> Self {
        Self { world: World::at_ms(1000), reaction }
    }

    fn plain() -> Self {
        Self::new(Reaction::new("mail", Source::All))
    }

    fn follower(&self) -> Follower {
        Follower::from(&self.reaction)
    }

    fn commit(&mut self, stream: &str, count: usize) {
        let followers = [self.follower()];
        self.world.append(stream, count, &followers);
    }

    fn claim_all(&mut self, engine: EngineId, limit: u32) -> Claimed {
        let reaction = self.reaction.clone();
        self.world
            .decide::<_, ()>(|draft| claim(draft, &ws(), &reaction, engine, limit))
            .expect("a claim cannot be refused")
    }

    /// Claims up to `limit` streams, and returns their names.
    fn claim_names(&mut self, engine: EngineId, limit: u32) -> Vec<String> {
        let claimed = self.claim_all(engine, limit);
        claimed.leased.into_iter().map(|leased| leased.lease.stream).collect()
    }

    /// Claims one stream that has events to process.
    #[track_caller]
    fn claim(&mut self, engine: EngineId) -> Leased {
        let mut claimed = self.claim_all(engine, 1);
        assert_eq!(claimed.blocked, []);
        claimed.leased.pop().expect("a stream has events to process")
    }

    #[track_caller]
    fn ack(&mut self, leased: &Leased, upto: i64) -> Outcome<i64> {
        let acks = [Ack { lease: leased.lease.clone(), upto }];
        self.world.decide(|draft| ack(draft, &acks)).unwrap()[0]
    }

    #[track_caller]
    fn fail(&mut self, leased: &Leased, done_upto: i64) -> Outcome<Failed> {
        self.fail_with(leased, done_upto, true)
    }

    #[track_caller]
    fn fail_with(&mut self, leased: &Leased, done_upto: i64, retryable: bool) -> Outcome<Failed> {
        let (error, reaction) = ("boom".to_owned(), self.reaction.clone());
        let failure = Failure { done_upto, error, retryable, chance: 0, wait_ms: None };
        self.world.decide(|draft| fail(draft, &reaction, &leased.lease, &failure)).unwrap()
    }

    #[track_caller]
    fn sub(&self, stream: &str) -> &Subscription {
        self.world.sub("mail", stream)
    }
}

fn retry(at: i64, failures: u32, due_ms: Option<i64>) -> Outcome<Failed> {
    Outcome::Done(Failed::Retry { at, failures, due: due_ms.map(Timestamp::from_ms) })
}

/// spec B194, B195, B222
#[test]
fn a_claim_leases_exactly_what_has_work() {
    let mut scene = Scene::plain();
    scene.commit("a", 2);
    scene.commit("b", 1);
    let first = scene.claim(ANN);
    assert_eq!((first.at, first.want, first.until), (-1, 1, Timestamp::from_ms(31_000)));
    assert_eq!(first.log, scene.world.stream("a").unwrap().id);
    scene.ack(&first, 1);
    assert_eq!(scene.claim_names(ANN, 9), ["b"]);

    let sub = scene.sub("b");
    assert_eq!((sub.holder(scene.world.now), sub.until), (Some(ANN), Some(first.until)));
    assert_eq!(sub.holder(first.until), None);
}

/// spec B196, B197
#[test]
fn two_workers_get_disjoint_streams_and_the_third_gets_none() {
    let mut scene = Scene::plain();
    for stream in ["a", "b", "c"] {
        scene.commit(stream, 1);
    }
    assert_eq!(scene.claim_names(ANN, 2), ["a", "b"]);
    assert_eq!(scene.claim_names(BOB, 2), ["c"]);
    assert_eq!(scene.claim_all(BOB, 2), Claimed::default());
}

/// spec B196, B199
#[test]
fn a_claim_skips_what_somebody_else_has_locked() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    scene.commit("b", 1);
    scene.world.locked.insert(RowKey::Subscription(ws(), "mail".to_owned(), "a".to_owned()));
    assert_eq!(scene.claim_names(ANN, 2), ["b"]);
}

#[test]
fn two_claims_of_one_transaction_are_disjoint_too() {
    let mut scene = Scene::plain();
    for stream in ["a", "b", "c"] {
        scene.commit(stream, 1);
    }
    let reaction = scene.reaction.clone();
    let both = |draft: &mut Draft| {
        let ann = claim::<()>(draft, &ws(), &reaction, ANN, 2)?;
        Ok((ann, claim(draft, &ws(), &reaction, BOB, 2)?))
    };
    let (ann, bob) = scene.world.decide(both).unwrap();
    assert_eq!((ann.leased.len(), bob.leased.len()), (2, 1));
    assert_eq!(bob.leased[0].lease.stream, "c");
}

/// spec B200
#[test]
fn an_ack_moves_the_place_frees_the_lease_and_resets_both_counters() {
    let mut scene = Scene::plain();
    scene.commit("a", 3);
    let leased = scene.claim(ANN);
    assert_eq!(scene.fail(&leased, -1), retry(-1, 1, None));
    let leased = scene.claim(ANN);
    assert_eq!(scene.ack(&leased, 1), Outcome::Done(1));
    let sub = scene.sub("a");
    assert_eq!((sub.at, sub.want, sub.owner, sub.until), (1, 2, None, None));
    assert_eq!((sub.failures, sub.claims, &sub.error), (0, 0, &None));
    assert_eq!(scene.claim(BOB).at, 1);
}

#[test]
fn an_ack_without_progress_leaves_the_counters() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    let leased = scene.claim(ANN);
    scene.fail(&leased, -1);
    let leased = scene.claim(ANN);
    assert_eq!(scene.ack(&leased, -1), Outcome::Done(-1));
    let sub = scene.sub("a");
    assert_eq!((sub.failures, sub.claims, sub.owner), (1, 1, None));
}

/// spec B212, B214
#[test]
fn a_late_ack_has_no_effect() {
    let mut scene = Scene::plain();
    scene.commit("a", 3);
    let late = scene.claim(ANN);
    scene.world.now = late.until;
    let before = scene.sub("a").clone();
    assert_eq!(scene.ack(&late, 2), Outcome::Lost, "an ack under an expired lease has an effect");
    assert_eq!(*scene.sub("a"), before);

    let next = scene.claim(BOB);
    assert_eq!(next.lease.fence, late.lease.fence + 1);
    assert_eq!(scene.ack(&late, 0), Outcome::Lost);
    assert_eq!(scene.ack(&next, 2), Outcome::Done(2));
    assert_eq!(scene.ack(&late, 0), Outcome::Lost);
    assert_eq!(scene.sub("a").at, 2);
}

#[test]
fn a_lease_taken_again_by_the_same_engine_is_another_lease() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    let late = scene.claim(ANN);
    scene.world.now = late.until;
    scene.claim(ANN);
    assert_eq!(scene.ack(&late, 0), Outcome::Lost);
}

/// spec B214
#[test]
fn no_ack_moves_a_place_back() {
    let mut scene = Scene::plain();
    scene.commit("a", 3);
    let leased = scene.claim(ANN);
    scene.ack(&leased, 1);
    let leased = scene.claim(ANN);
    assert_eq!(scene.ack(&leased, 0), Outcome::Done(1));
}

/// spec N64
#[test]
fn an_ack_of_several_ignores_those_of_others_and_is_refused_as_a_whole() {
    let mut scene = Scene::plain();
    for stream in ["a", "b", "c"] {
        scene.commit(stream, 1);
    }
    let ann = scene.claim_all(ANN, 2).leased;
    let bob = scene.claim(BOB);
    let entry = |leased: &Leased, upto| Ack { lease: leased.lease.clone(), upto };

    let beyond = [entry(&ann[0], 0), entry(&ann[1], 1)];
    let refusal = scene.world.decide(|draft| ack(draft, &beyond)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "reaction `mail`, stream `b`: cannot acknowledge version 1: only versions up to 0 are \
         committed"
    );
    assert_eq!((scene.sub("a").at, scene.sub("b").at), (-1, -1));

    let mut foreign = entry(&bob, 0);
    foreign.lease.engine = ANN;
    let mixed = [entry(&ann[0], 0), foreign, entry(&ann[1], 0), entry(&ann[1], 0)];
    let outcomes = scene.world.decide(|draft| ack(draft, &mixed)).unwrap();
    assert_eq!(outcomes, [Outcome::Done(0), Outcome::Lost, Outcome::Done(0), Outcome::Lost]);
    assert_eq!(scene.sub("c").at, -1);
}

/// spec B201
#[test]
fn a_failure_keeps_what_was_handled_and_delivers_the_rest_again() {
    let mut scene = Scene::plain();
    scene.commit("a", 5);
    let leased = scene.claim(ANN);
    assert_eq!(scene.fail(&leased, 2), retry(2, 1, None));
    let again = scene.claim(BOB);
    assert_eq!((again.at, again.want), (2, 4));
    assert_eq!(scene.sub("a").error.as_deref(), Some("boom"));
}

/// spec B202: n retries are n + 1 attempts.
#[test]
fn a_stream_is_blocked_when_its_retries_are_used_up() {
    for max_retries in [0, 1, 3] {
        let mut scene = Scene::plain();
        scene.reaction.max_retries = max_retries;
        scene.commit("a", 1);
        for failures in 1..=max_retries {
            let leased = scene.claim(ANN);
            assert_eq!(scene.fail(&leased, -1), retry(-1, failures, None));
        }
        let leased = scene.claim(ANN);
        let attempts = max_retries + 1;
        let reason = format!("failed {attempts} times, maxRetries is {max_retries}: boom");
        let blocked = Failed::Blocked { at: -1, reason: reason.clone() };
        assert_eq!(scene.fail(&leased, -1), Outcome::Done(blocked));
        assert_eq!(scene.sub("a").blocked, Some(reason));
        // spec B205
        scene.world.pass_ms(1_000_000);
        scene.commit("a", 1);
        assert_eq!(scene.claim_all(ANN, 9), Claimed::default());
    }
}

#[test]
fn progress_gives_the_next_event_all_its_attempts() {
    let mut scene = Scene::plain();
    scene.reaction.max_retries = 1;
    scene.commit("a", 9);
    for done in 0..8 {
        let leased = scene.claim(ANN);
        let failed = scene.fail(&leased, done);
        assert_eq!(failed, retry(done, 1, None), "failures are not reset after event {done}");
    }
    let leased = scene.claim(ANN);
    assert!(matches!(scene.fail(&leased, 7), Outcome::Done(Failed::Blocked { at: 7, .. })));
}

/// spec B203, B204
#[test]
fn block_on_error_decides_whether_a_failure_can_block() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    let leased = scene.claim(ANN);
    let reason = "failed with an error that is not retryable: boom".to_owned();
    let blocked = Outcome::Done(Failed::Blocked { at: -1, reason });
    assert_eq!(scene.fail_with(&leased, -1, false), blocked);

    let mut scene = Scene::plain();
    scene.reaction.block_on_error = false;
    scene.commit("a", 1);
    for failures in 1..40 {
        let leased = scene.claim(ANN);
        let retryable = failures % 2 == 0;
        assert_eq!(scene.fail_with(&leased, -1, retryable), retry(-1, failures, None));
    }
}

/// spec B213, N68
#[test]
fn leases_lost_in_a_row_block_the_stream_with_a_message_that_says_so() {
    let mut scene = Scene::plain();
    scene.reaction.block_on_error = false;
    scene.commit("a", 3);
    let leased = scene.claim(ANN);
    scene.ack(&leased, 0);
    for _ in 0..10 {
        let leased = scene.claim(ANN);
        scene.world.now = leased.until;
        assert_eq!(scene.ack(&leased, 2), Outcome::Lost);
        assert_eq!(scene.sub("a").failures, 0);
    }
    let claimed = scene.claim_all(BOB, 9);
    assert_eq!(claimed.leased, []);
    expect![[
        "claimed 10 times in a row without progress at version 1: the lease of 30000 ms runs \
         out before the handler is done, or its engine dies"
    ]]
    .assert_eq(&claimed.blocked[0].reason);
    assert_eq!(scene.sub("a").blocked.as_ref(), Some(&claimed.blocked[0].reason));
    assert_eq!(scene.claim_all(BOB, 9), Claimed::default());
}

/// spec B213
#[test]
fn progress_and_reported_failures_end_the_row_of_lost_leases() {
    let mut scene = Scene::plain();
    scene.reaction.max_retries = 100;
    scene.commit("a", 100);
    for round in 0..6 {
        for _ in 0..9 {
            let leased = scene.claim(ANN);
            scene.world.now = leased.until;
        }
        let leased = scene.claim(BOB);
        if round % 2 == 0 {
            scene.ack(&leased, round);
        } else {
            scene.fail(&leased, -1);
        }
    }
    assert_eq!(scene.sub("a").blocked, None);
}

/// spec B216
#[test]
fn the_next_attempt_waits_for_the_backoff_whoever_asks() {
    let mut scene = Scene::plain();
    let kind = BackoffKind::Linear;
    scene.reaction.backoff = Some(Backoff { kind, ms: 100, max_ms: 1000, jitter: false });
    scene.commit("a", 1);
    let leased = scene.claim(ANN);
    assert_eq!(scene.fail(&leased, -1), retry(-1, 1, Some(1100)));
    scene.commit("a", 1);
    scene.world.pass_ms(99);
    assert_eq!(scene.claim_all(BOB, 9), Claimed::default());
    scene.world.pass_ms(1);
    let leased = scene.claim(BOB);
    assert_eq!(scene.fail(&leased, -1), retry(-1, 2, Some(1300)));
}

#[test]
fn backoff_grows_as_its_kind_says_and_jitter_only_adds() {
    use BackoffKind::{Exponential, Fixed, Linear};
    let cases = [
        (Fixed, [100, 100, 100, 100]),
        (Linear, [100, 200, 300, 1000]),
        (Exponential, [100, 200, 400, 1000]),
    ];
    for (kind, waits) in cases {
        let backoff = Backoff { kind, ms: 100, max_ms: 1000, jitter: false };
        let spread = Backoff { jitter: true, ..backoff.clone() };
        for (failures, wait) in [1, 2, 3, u32::MAX].into_iter().zip(waits) {
            assert_eq!(backoff.wait_ms(failures, u32::MAX), wait);
            assert_eq!(spread.wait_ms(failures, 0), wait);
            assert_eq!(spread.wait_ms(failures, u32::MAX), wait + wait / 2 - 1);
        }
    }
}

/// spec N65, N66
#[test]
fn a_block_keeps_progress_and_counts_once_and_only_for_the_holder() {
    let mut scene = Scene::plain();
    scene.commit("a", 5);
    let leased = scene.claim(ANN);
    let stop = |scene: &mut Scene, lease: &Lease| {
        scene.world.decide(|draft| block(draft, lease, 2, "bad\0data")).unwrap()
    };
    let other = Lease { engine: BOB, ..leased.lease.clone() };
    assert_eq!(stop(&mut scene, &other), Outcome::Lost);
    assert_eq!(stop(&mut scene, &leased.lease), Outcome::Done(2));
    assert_eq!(stop(&mut scene, &leased.lease), Outcome::Lost);
    assert_eq!(scene.sub("a").at, 2);
    assert_eq!(scene.sub("a").blocked.as_deref(), Some("bad\u{fffd}data"));
}

/// spec N67
#[test]
fn a_deferred_stream_is_invisible_until_due_and_has_not_failed() {
    let mut scene = Scene::plain();
    scene.commit("a", 5);
    let leased = scene.claim(ANN);
    let until = Timestamp::from_ms(5000);
    let put_off = |draft: &mut Draft| defer(draft, &leased.lease, 1, until);
    assert_eq!(scene.world.decide(put_off).unwrap(), Outcome::Done(1));
    for engine in [ANN, BOB] {
        assert_eq!(scene.claim_all(engine, 9), Claimed::default());
    }
    let sub = scene.sub("a");
    assert_eq!((sub.failures, sub.claims), (0, 0));
    scene.world.now = until;
    assert_eq!(scene.claim(BOB).at, 1);
    assert_eq!(scene.sub("a").due, None);
}

#[test]
fn a_renewed_lease_lasts_longer_and_a_lost_one_stays_lost() {
    let mut scene = Scene::plain();
    scene.commit("a", 1);
    let leased = scene.claim(ANN);
    let keep = |scene: &mut Scene| {
        let (reaction, mine) = (scene.reaction.clone(), [leased.lease.clone()]);
        scene.world.decide::<_, ()>(|draft| renew(draft, &reaction, &mine)).unwrap()[0]
    };
    scene.world.pass_ms(20_000);
    assert_eq!(keep(&mut scene), Outcome::Done(Timestamp::from_ms(51_000)));
    scene.world.pass_ms(20_000);
    assert_eq!(scene.claim_all(BOB, 9), Claimed::default());
    scene.world.pass_ms(10_000);
    assert_eq!(keep(&mut scene), Outcome::Lost);
    scene.claim(BOB);
    assert_eq!(keep(&mut scene), Outcome::Lost);
}

/// spec N69: each reaction has its own subscription.
#[test]
fn reactions_of_one_stream_do_not_disturb_each_other() {
    let mut world = World::at_ms(1000);
    let [mail, index] = ["mail", "index"].map(|name| Reaction::new(name, Source::All));
    let followers = [Follower::from(&mail), Follower::from(&index)];
    world.append("a", 2, &followers);
    let take = |world: &mut World, reaction: &Reaction| {
        let claim = |draft: &mut Draft| claim::<()>(draft, &ws(), reaction, ANN, 9);
        world.decide(claim).unwrap().leased
    };
    let leased = take(&mut world, &mail);
    let acks = [Ack { lease: leased[0].lease.clone(), upto: 1 }];
    world.decide(|draft| ack(draft, &acks)).unwrap();
    assert_eq!((world.sub("mail", "a").at, world.sub("index", "a").at), (1, -1));
    assert_eq!(take(&mut world, &mail), []);
    assert_eq!(take(&mut world, &index).len(), 1);
}

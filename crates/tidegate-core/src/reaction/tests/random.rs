//! The invariants hold after random actions of two engines in any order (spec streams,
//! reactions).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::row::Row;

const STREAMS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Clone, Debug)]
enum Step {
    Commit { stream: usize, count: usize },
    Claim { engine: EngineId, limit: u32 },
    Ack { lease: usize, ahead: i64 },
    Fail { lease: usize, ahead: i64, retryable: bool },
    Block { lease: usize },
    Defer { lease: usize, ms: u64 },
    Renew { lease: usize },
    Pass { ms: u64 },
    Unblock,
    Reset { stream: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let lease = 0_usize..12;
    let stream = 0..STREAMS.len();
    prop_oneof![
        4 => (stream.clone(), 1_usize..4).prop_map(|(stream, count)| Step::Commit { stream, count }),
        5 => (ANN..=BOB, 1_u32..4).prop_map(|(engine, limit)| Step::Claim { engine, limit }),
        4 => (lease.clone(), 0_i64..4).prop_map(|(lease, ahead)| Step::Ack { lease, ahead }),
        3 => (lease.clone(), 0_i64..3, any::<bool>())
            .prop_map(|(lease, ahead, retryable)| Step::Fail { lease, ahead, retryable }),
        1 => lease.clone().prop_map(|lease| Step::Block { lease }),
        1 => (lease.clone(), 0_u64..100).prop_map(|(lease, ms)| Step::Defer { lease, ms }),
        1 => lease.prop_map(|lease| Step::Renew { lease }),
        3 => (0_u64..80).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Unblock),
        1 => stream.prop_map(|stream| Step::Reset { stream }),
    ]
}

/// Scene with all leases that were ever granted, including lost ones.
struct Play {
    scene: Scene,
    leases: Vec<Leased>,
}

impl Play {
    fn new() -> Self {
        let mut reaction = Reaction::new("mail", Source::All);
        (reaction.lease_ms, reaction.max_retries, reaction.max_lost_leases) = (50, 2, 3);
        let kind = BackoffKind::Exponential;
        reaction.backoff = Some(Backoff { kind, ms: 10, max_ms: 100, jitter: true });
        Self { scene: Scene::new(reaction), leases: Vec::new() }
    }

    /// Returns a lease, counted back from the last granted one, and a version that its holder could
    /// ack.
    fn pick(&self, lease: usize, ahead: i64) -> Option<(Lease, i64)> {
        let at = self.leases.len().checked_sub(lease + 1)?;
        let leased = &self.leases[at];
        let want = self.scene.sub(&leased.lease.stream).want;
        Some((leased.lease.clone(), want.min(leased.at + ahead)))
    }

    fn subs(&self) -> BTreeMap<String, Subscription> {
        let subs = self.scene.world.subs();
        subs.map(|sub| (sub.stream.clone(), sub.clone())).collect()
    }

    fn play(&mut self, step: &Step) {
        let reaction = self.scene.reaction.clone();
        let follower = self.scene.follower();
        match *step {
            Step::Commit { stream, count } => self.scene.commit(STREAMS[stream], count),
            Step::Claim { engine, limit } => self.claim(engine, limit),
            Step::Ack { lease, ahead } => {
                let Some((lease, upto)) = self.pick(lease, ahead) else { return };
                let acks = [Ack { lease, upto }];
                self.scene.world.decide(|draft| ack(draft, &acks)).unwrap();
            }
            Step::Fail { lease, ahead, retryable } => {
                let Some((lease, done_upto)) = self.pick(lease, ahead) else { return };
                let failure = Failure {
                    done_upto,
                    error: "x".to_owned(),
                    retryable,
                    chance: 9,
                    wait_ms: None,
                };
                self.scene.world.decide(|draft| fail(draft, &reaction, &lease, &failure)).unwrap();
            }
            Step::Block { lease } => {
                let Some((lease, upto)) = self.pick(lease, 0) else { return };
                self.scene.world.decide(|draft| block(draft, &lease, upto, "x")).unwrap();
            }
            Step::Defer { lease, ms } => {
                let Some((lease, upto)) = self.pick(lease, 1) else { return };
                let until = self.scene.world.now.plus_ms(ms);
                self.scene.world.decide(|draft| defer(draft, &lease, upto, until)).unwrap();
            }
            Step::Renew { lease } => {
                let Some((lease, _)) = self.pick(lease, 0) else { return };
                let leases = [lease];
                let renew = |draft: &mut Draft| renew::<()>(draft, &reaction, &leases);
                self.scene.world.decide(renew).unwrap();
            }
            Step::Pass { ms } => self.scene.world.pass_ms(ms),
            Step::Unblock => {
                let names = STREAMS.map(str::to_owned);
                self.scene.world.decide(|draft| unblock(draft, &ws(), &follower, &names)).unwrap();
            }
            Step::Reset { stream } => {
                let names = [STREAMS[stream].to_owned()];
                self.scene.world.decide(|draft| reset(draft, &ws(), &follower, &names)).unwrap();
            }
        }
    }

    fn claim(&mut self, engine: EngineId, limit: u32) {
        let (before, now) = (self.subs(), self.scene.world.now);
        let claimed = self.scene.claim_all(engine, limit).leased;
        assert!(claimed.len() <= limit as usize);
        for leased in &claimed {
            let sub = &before[&leased.lease.stream];
            assert_eq!(sub.blocked, None, "a blocked stream was claimed");
            assert_eq!(sub.holder(now), None, "a stream with a valid lease was claimed");
            assert!(leased.want > leased.at, "a stream without events was claimed");
        }
        self.leases.extend(claimed);
    }

    /// Checks the invariants between the states before and after a step.
    fn check(&self, step: &Step, before: &BTreeMap<String, Subscription>) {
        for (stream, now) in self.subs() {
            let head = self.scene.world.stream(&stream).unwrap().head;
            assert_eq!(now.want, head);
            assert!(now.at <= now.want);
            let Some(then) = before.get(&stream) else { continue };
            assert!(now.fence >= then.fence && now.since >= then.since);
            if !matches!(step, Step::Reset { .. }) {
                assert!(now.at >= then.at, "a cursor moved back from {} to {}", then.at, now.at);
            }
        }
        self.check_log();
    }

    fn check_log(&self) {
        let mut positions = Vec::new();
        for stream in STREAMS {
            let log = self.scene.world.log(stream);
            for (version, event) in log.iter().enumerate() {
                assert_eq!(usize::try_from(event.version), Ok(version), "the versions have a gap");
            }
            assert!(log.is_sorted_by(|a, b| a.pos < b.pos && a.id < b.id));
            positions.extend(log.iter().map(|event| event.pos));
        }
        positions.sort_unstable();
        assert!(positions.into_iter().eq(1..=self.committed()), "the positions have a gap");
    }

    fn committed(&self) -> i64 {
        match self.scene.world.rows.get(&RowKey::LogHead(ws())) {
            Some(Row::LogHead(head)) => head.pos,
            _ => 0,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_two_engines_do_the_promises_hold(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut play = Play::new();
        for step in &steps {
            let before = play.subs();
            play.play(step);
            play.check(step, &before);
        }
    }

    /// All committed events are processed after the random steps have ended.
    #[test]
    fn when_faults_stop_all_streams_are_worked_off(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut play = Play::new();
        for step in &steps {
            play.play(step);
        }
        play.play(&Step::Unblock);
        play.scene.world.pass_ms(1000);
        play.play(&Step::Unblock);
        for _ in 0..3 {
            // A claim may block a stream because of the leases lost before; it is unblocked again.
            for leased in play.scene.claim_all(ANN, 9).leased {
                play.scene.ack(&leased, leased.want);
            }
            play.play(&Step::Unblock);
        }
        for sub in play.subs().values() {
            prop_assert!(!sub.has_work(), "{sub:?}");
        }
    }
}

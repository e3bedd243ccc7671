//! Reactions in many processes, while other processes commit, and while processes are killed.

use std::{
    collections::BTreeMap,
    env,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use crate::{
    child::{Role, pause},
    crowd::draw,
    journal::{Line, wait_until},
    ledger::{Ledger, Tried},
    place::{Place, block_on},
    process::{Process, Scene},
    readers::{LEASE, POINTS, REACTIONS, echo_of},
    storm::full,
    watch::{Watch, spots},
    writers::{BEGIN, CALLERS},
};

/// spec B194–B200, B215: all reactions handle the events that are committed while they run.
pub(crate) fn judge() {
    let (writers, commits, readers) = if full() { (4, 500, 4) } else { (2, 60, 2) };
    let Some(place) = Place::postgres() else { return };
    let (scene, streams) = (scene(&place), commits / 10);
    let begun = Instant::now();
    let start = |role, name: String| scene.start(role, &name, &place, LEASE, None);
    let _readers: Vec<_> = (0..readers).map(|n| start(Role::Reader, format!("r{n}"))).collect();
    let role = Role::Committer { commits, streams };
    let writers: Vec<_> = (0..writers).map(|n| start(role, format!("w{n}"))).collect();
    let (count, mut watch) = (writers.len(), Watch::new(&place));
    let over = |lines: &[Line]| lines.iter().filter(|line| line.what == "over").count();
    watch.until(&scene.journal, |lines| over(lines) == count);
    for writer in writers {
        assert!(writer.wait().success(), "a writer has failed:\n{}", scene.journal.told());
    }
    watch.until_drained(|| scene.journal.told());
    let took = begun.elapsed();
    let (tried, handled) = judge_place(&scene, &place);
    assert_eq!((tried.done, tried.unreported, handled), (count * commits, 0, count * commits));
    let looks = watch.looks;
    eprintln!(
        "{count} x {commits} events, {readers} readers: {took:.1?}, {looks} looks, {tried:?}"
    );
    scene.clear();
}

/// spec B193, B200, B212–B215: writing and reading processes are killed at random, repeatedly.
pub(crate) fn judge_killed_at_random() {
    let (writers, commits, readers, kills) = if full() { (4, 500, 4, 40) } else { (2, 60, 2, 6) };
    let Some(place) = Place::postgres() else { return };
    let seed = env::var("TIDEGATE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    eprintln!("TIDEGATE_TEST_SEED={seed} repeats who is killed when, by the work done so far");
    let scene = scene(&place);
    let streams = commits / 10;
    let mut born = 0;
    let mut start = |role: Role| {
        born += 1;
        let name = format!("p{born}");
        (scene.start(role, &name, &place, LEASE, None), name, role)
    };
    let writer = Role::Committer { commits, streams };
    let mut living: Vec<(Process, String, Role)> = (0..writers).map(|_| start(writer)).collect();
    living.extend((0..readers).map(|_| start(Role::Reader)));
    let did = |lines: &[Line]| lines.iter().filter(|line| line.after("did").is_some()).count();
    let (all, mut next, mut watch) = (writers * commits, 0, Watch::new(&place));
    for _ in 0..kills {
        next += 1 + draw(&mut seed, (2 * all / kills).max(3) - 2);
        // A killed process may lose the commits that it had not finished.
        let due = next.min(all - kills * CALLERS);
        watch.until(&scene.journal, |lines| did(lines) >= due);
        let (process, name, role) = living.swap_remove(draw(&mut seed, living.len()));
        process.kill();
        // A new process makes the commits that the killed one had not started.
        let begun = scene.journal.count(&name, "try");
        living.push(start(match role {
            Role::Committer { commits, streams } => {
                Role::Committer { commits: commits - begun, streams }
            }
            role => role,
        }));
    }
    let is_writer = |role: &Role| matches!(role, Role::Committer { .. });
    let writing = living.iter().filter(|(.., role)| is_writer(role));
    let names: Vec<&str> = writing.map(|(_, name, _)| name.as_str()).collect();
    let over = |line: &&Line| line.what == "over" && names.contains(&line.by.as_str());
    watch.until(&scene.journal, |lines| lines.iter().filter(over).count() == names.len());
    watch.until_drained(|| scene.journal.told());
    let (tried, handled) = judge_place(&scene, &place);
    assert_eq!(handled, tried.done + tried.unreported);
    assert!(tried.done + kills * CALLERS >= all, "too few of {all} commits succeeded: {tried:?}");
    assert!(tried.unreported <= kills * CALLERS, "{tried:?}");
    let (looks, again) = (watch.looks, did(&scene.journal.lines()) - handled);
    eprintln!("{kills} kills: {tried:?}, {again} handled again, {looks} looks");
    scene.clear();
}

/// spec B194, B212, B213: a process is killed after the handler and before the ack. Its effect is
/// not stored, its lease expires in time, and another process handles the event, once.
pub(crate) fn judge_killed_before_the_ack() {
    for point in POINTS {
        let Some(place) = Place::postgres() else { return };
        let scene = scene(&place);
        let role = Role::Committer { commits: 3, streams: 1 };
        assert!(scene.start(role, "writer", &place, LEASE, None).wait().success());
        let first = scene.start(Role::Reader, "first", &place, LEASE, Some(point));
        scene.journal.wait_for("first", point, 1);
        first.kill();
        let reaction = REACTIONS[POINTS.iter().position(|it| *it == point).unwrap()];
        let left = spots(&place).into_iter().find(|it| it.reaction == reaction).unwrap();
        assert_eq!((left.at, left.owner.is_some()), (-1, true), "{point}: {left:?}");
        let longest = left.now + i64::try_from(LEASE.as_micros()).unwrap();
        assert!(left.until.unwrap() <= longest, "{point}: {left:?}");

        let _second = scene.start(Role::Reader, "second", &place, LEASE, None);
        let again = || spots(&place).into_iter().find(|it| it.reaction == reaction).unwrap();
        let mut taken = again();
        let mut is_taken = || {
            taken = again();
            taken.fence > left.fence
        };
        wait_until(&mut is_taken, || format!("{point}: no process took over {left:?}"));
        assert!(
            taken.now >= left.until.unwrap(),
            "{point}: {left:?} was taken over before its lease ended: {taken:?}"
        );
        Watch::new(&place).until_drained(|| scene.journal.told());
        let (tried, handled) = judge_place(&scene, &place);
        assert_eq!((tried.done, handled), (3, 3), "{point}");
        assert!(
            scene.journal.count("second", point) > 0,
            "{point}: the second process did not handle the event again"
        );
        scene.clear();
    }
}

/// spec B190, B193: a process is killed inside a transaction. Its commit is stored completely or
/// not at all, and later commits continue without a gap.
pub(crate) fn judge_killed_in_a_commit() {
    let Some(place) = Place::postgres() else { return };
    let scene = scene(&place);
    let role = Role::Committer { commits: 40, streams: 2 };
    assert!(scene.start(role, "before", &place, LEASE, None).wait().success());
    block_on(async {
        // Two clients, because a transaction sees the activity of other backends as of its first
        // query.
        let (held, other) = (place.client().await, place.client().await);
        let lock = format!("begin; select pos from {} for update", place.own("log_head"));
        held.batch_execute(&lock).await.unwrap();
        let pid: i32 = held.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        let victim = scene.start(role, "victim", &place, LEASE, None);
        let waits = "select count(*) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))";
        let begun = Instant::now();
        while other.query_one(waits, &[&pid]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(40), "{}", scene.journal.told());
            pause(Duration::from_millis(5)).await;
        }
        victim.kill();
        held.batch_execute("rollback").await.unwrap();
    });
    assert!(scene.start(role, "after", &place, LEASE, None).wait().success());
    let tried = Ledger::of(&block_on(place.rows())).judge(&scene.journal.lines());
    let begun = scene.journal.count("victim", "try");
    assert!(begun > 0 && scene.journal.count("victim", "done") == 0, "{}", scene.journal.told());
    assert_eq!(tried.done, 80, "{tried:?}");
    assert!(tried.unreported <= begun, "{tried:?}");
    eprintln!("killed in a commit of {begun}: {} of them are there", tried.unreported);
    scene.clear();
}

/// Creates a scene whose writers start at once, with the table that folding reactions write to.
fn scene(place: &Place) -> Scene {
    let scene = Scene::new();
    scene.open_door(BEGIN);
    block_on(async {
        // The schema is created here, so that two processes do not create it at the same time.
        drop(place.open().await);
        place.make_table().await;
    });
    scene
}

/// Checks that every reaction has handled every event: at least once and in order if the effect is
/// external, exactly once if it is in the store. Returns the number of events.
fn judge_place(scene: &Scene, place: &Place) -> (Tried, usize) {
    let (ledger, lines) = (Ledger::of(&block_on(place.rows())), scene.journal.lines());
    let tried = ledger.judge(&lines);
    let mut reached: BTreeMap<&str, i64> = BTreeMap::new();
    for words in lines.iter().filter_map(|line| line.after("did")) {
        let version: i64 = words[1].parse().unwrap();
        let reached = reached.entry(words[0]).or_insert(-1);
        assert!(version <= *reached + 1, "an event was handled before its predecessor: {words:?}");
        *reached = version.max(*reached);
    }
    let (mut table, places) = (Vec::new(), spots(place));
    for (stream, entries) in ledger.family("work-") {
        let last = entries.last().map_or(-1, |entry| entry.version);
        assert_eq!(
            reached.get(stream.as_str()),
            Some(&last),
            "not all events of `{stream}` were handled"
        );
        let echoes = ledger.streams[&echo_of(stream)].iter();
        let echoes = echoes.map(|entry| entry.data.as_str().parse::<i64>().unwrap());
        assert!(echoes.eq(0..=last), "events of `{stream}` were not echoed once and in order");
        table.extend((0..=last).map(|version| format!("{stream}/{version}")));
        for reaction in REACTIONS {
            let found = places.iter().find(|it| it.reaction == reaction && it.stream == *stream);
            let found = found.expect("the reaction has a position");
            assert_eq!((found.at, found.owner.as_ref()), (last, None), "{found:?}");
        }
    }
    table.sort();
    let folded: Vec<_> = block_on(place.effects()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(folded, table, "the events were not folded exactly once");
    (tried, table.len())
}

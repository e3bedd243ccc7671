use std::{collections::BTreeSet, fmt::Write};

use jiff::SignedDuration;

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn shown(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.micros()).unwrap().to_string()
}

/// Returns the first occurrences after a time.
fn occurrences(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let cron = Cron::parse(cron, zone).unwrap();
    let mut last = at(after);
    let next = || {
        last = cron.next(last)?;
        Some(shown(last))
    };
    std::iter::from_fn(next).take(count).collect()
}

#[test]
fn expressions_mean_what_cron_means() {
    let table = [
        ("*/15 * * * *", "2026-01-01T00:07:03Z", ["2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"]),
        (
            "*/20 * * * * *",
            "2026-01-01T00:00:00Z",
            ["2026-01-01T00:00:20Z", "2026-01-01T00:00:40Z"],
        ),
        ("0 3 * * *", "2026-01-01T03:00:00Z", ["2026-01-02T03:00:00Z", "2026-01-03T03:00:00Z"]),
        ("0 3 * * 1-5", "2026-01-02T03:00:00Z", ["2026-01-05T03:00:00Z", "2026-01-06T03:00:00Z"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("0 0 L * *", "2026-01-31T00:00:00Z", ["2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"]),
        (
            "0 9 * JAN MON#1",
            "2026-01-01T00:00:00Z",
            ["2026-01-05T09:00:00Z", "2027-01-04T09:00:00Z"],
        ),
        ("@hourly", "2026-01-01T00:59:59Z", ["2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]),
        ("@daily", "2026-01-01T00:00:00Z", ["2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]),
        ("@weekly", "2026-01-01T00:00:00Z", ["2026-01-04T00:00:00Z", "2026-01-11T00:00:00Z"]),
        ("@monthly", "2026-01-01T00:00:00Z", ["2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"]),
        ("@yearly", "2026-01-01T00:00:00Z", ["2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]),
    ];
    for (cron, after, expected) in table {
        assert_eq!(occurrences(cron, "UTC", after, 2), expected, "{cron}");
    }
}

#[test]
fn an_occurrence_is_after_the_moment_to_the_microsecond() {
    let cron = Cron::parse("* * * * * *", "UTC").unwrap();
    for (after, expected) in
        [(0, 1), (1, 1), (999_999, 1), (1_000_000, 2), (-1, 0), (-1_000_000, 0)]
    {
        let next = cron.next(Timestamp::from_micros(after));
        assert_eq!(next, Some(Timestamp::from_micros(expected * 1_000_000)), "{after}");
    }
}

#[test]
fn where_clocks_change_nothing_is_lost_and_nothing_comes_twice() {
    let table: [(&str, &str, &str, &[&str]); 10] = [
        // The clock jumps over 02:30: the occurrence is at the first moment after the jump.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"],
        ),
        // The clock jumps over three occurrences: only one happens, after the jump.
        (
            "0,15,30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"],
        ),
        // 02:30 comes twice: the occurrence is at the first.
        (
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        // An interval continues through both clock changes.
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"],
        ),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            &["2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"],
        ),
        // The clock jumps by only half an hour.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T10:00:00Z",
            &["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"],
        ),
        // The clock jumps at midnight.
        (
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-03T12:00:00Z",
            &["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"],
        ),
        // Samoa skipped 30 December 2011.
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00:00Z",
            &["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"],
        ),
        // An hour before the jump: the cron library alone would repeat the occurrence after the
        // jump.
        (
            "0 1 * * *",
            "Europe/Berlin",
            "2026-03-28T12:00:00Z",
            &["2026-03-29T00:00:00Z", "2026-03-29T23:00:00Z"],
        ),
        // An hourly occurrence has no extra one after the jump.
        (
            "45 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:00:00Z",
            &["2026-03-29T00:45:00Z", "2026-03-29T01:45:00Z"],
        ),
    ];
    for (cron, zone, after, expected) in table {
        assert_eq!(occurrences(cron, zone, after, expected.len()), expected, "{cron} {zone}");
    }
}

/// Time zones with many or unusual clock changes.
const ZONES: [&str; 20] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Caracas",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Santiago",
    "Antarctica/Troll",
    "Asia/Gaza",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/London",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Kiritimati",
];

/// Expressions whose times are full quarters of an hour. The flags: the hour is a wildcard; any
/// field is a wildcard.
const CRONS: [(&str, bool, bool); 8] = [
    ("30 2 * * *", false, false),
    ("0 0 * * *", false, false),
    ("0 1 * * *", false, false),
    ("45 23 * * *", false, false),
    ("0,30 2,3 * * *", false, false),
    ("*/30 2 * * *", false, true),
    ("0 */2 * * *", true, true),
    ("*/15 * * * *", true, true),
];

/// Compares every kind of clock change from 1970 to 2040 with a search in steps of a quarter of an
/// hour.
#[test]
fn every_change_of_clocks_is_survived() {
    let end: jiff::Timestamp = "2040-01-01T00:00:00Z".parse().unwrap();
    let mut shapes = BTreeSet::new();
    for name in ZONES {
        let zone = TimeZone::get(name).unwrap();
        let crons =
            CRONS.map(|(text, every, often)| (Cron::parse(text, name).unwrap(), every, often));
        let changes = zone.following(jiff::Timestamp::UNIX_EPOCH).map(|it| it.timestamp());
        for change in changes.take_while(|at| *at < end) {
            let second = change.as_second();
            // Most changes equal one of another year (same jump, same time of day) and are skipped.
            let before = zone.to_datetime(jiff::Timestamp::from_second(second - 1).unwrap());
            let shape = (before.time(), zone.to_datetime(change).time());
            if second % 900 != 0 || !shapes.insert((name, shape)) {
                continue;
            }
            let (from, until) = (second - 3 * 3600, second + 27 * 3600);
            for (cron, every_hour, frequent) in &crons {
                let text = cron.pattern.as_str();
                let expected = walked(cron, from, until, *every_hour, *frequent);
                let mut last = Timestamp::from_ms(from * 1000);
                for at in expected {
                    last = cron.next(last).unwrap();
                    assert_eq!(
                        shown(last),
                        at.to_string(),
                        "wrong occurrence of {text} in {name} near the change {change}"
                    );
                }
                let next = cron.next(last).unwrap();
                assert!(
                    next > Timestamp::from_ms(until * 1000),
                    "extra occurrence of {text} in {name} near the change {change}"
                );
            }
        }
    }
    assert!(shapes.len() > 60, "{}", shapes.len());
}

/// Returns the occurrences after `from` and up to `until`, found by testing every quarter of an
/// hour.
fn walked(
    cron: &Cron,
    from: i64,
    until: i64,
    every_hour: bool,
    frequent: bool,
) -> Vec<jiff::Timestamp> {
    let matches = |shows: DateTime| cron.pattern.is_time_matching(&shows).unwrap();
    let quarter = SignedDuration::from_mins(15);
    let mut found = Vec::new();
    let mut before = cron.zone.to_datetime(jiff::Timestamp::from_second(from).unwrap());
    for second in (from + 900..=until).step_by(900) {
        let at = jiff::Timestamp::from_second(second).unwrap();
        let shows = cron.zone.to_datetime(at);
        let mut jumped = false;
        let mut over = before + quarter;
        while over < shows {
            jumped |= matches(over);
            over += quarter;
        }
        let first = cron.zone.to_ambiguous_timestamp(shows).earlier().unwrap() == at;
        if (jumped && !every_hour) || (matches(shows) && (first || frequent)) {
            found.push(at);
        }
        before = shows;
    }
    found
}

#[test]
fn what_cannot_be_used_is_said_with_the_fix() {
    let table = [
        ("61 * * * *", "UTC", "bad_cron"),
        ("* * * *", "UTC", "bad_cron"),
        ("* * * * * * 2030", "UTC", "bad_cron"),
        ("@fortnightly", "UTC", "bad_cron"),
        ("every day", "UTC", "bad_cron"),
        ("", "UTC", "bad_cron"),
        ("0 0 30 2 *", "UTC", "cron_never_occurs"),
        ("* * * * *", "Europe/Belin", "unknown_time_zone"),
        ("* * * * *", "", "unknown_time_zone"),
    ];
    let mut told = String::new();
    for (cron, zone, code) in table {
        let error = Cron::parse(cron, zone).expect_err("it cannot be used");
        assert_eq!(error.code(), code, "{cron} {zone}: {error}");
        writeln!(told, "{error}").unwrap();
    }
    expect_test::expect![[r#"
        cron `61 * * * *` cannot be read (number out of bounds): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `* * * *` cannot be read (pattern must have 5 or 6 fields when years are disallowed): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `* * * * * * 2030` cannot be read (pattern must have 5 or 6 fields when years are disallowed): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `@fortnightly` cannot be read (pattern must have 5 or 6 fields when years are disallowed): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `every day` cannot be read (pattern must have 5 or 6 fields when years are disallowed): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `` cannot be read (cronPattern cannot be an empty string): write five fields (minute hour day month weekday), six with seconds in front, or a word such as `@daily`
        cron `0 0 30 2 *` never occurs: no date matches its day and month, change them
        time zone `Europe/Belin` of cron `* * * * *` is not known: write a name of the IANA database such as `Europe/Berlin`, or leave it out for UTC
        time zone `` of cron `* * * * *` is not known: write a name of the IANA database such as `Europe/Berlin`, or leave it out for UTC
    "#]].assert_eq(&told);
}

#[test]
fn what_was_missed_runs_within_the_window_and_in_order() {
    let cron = Cron::parse("*/10 * * * *", "UTC").unwrap();
    let now = at("2026-01-01T12:05:00Z");
    let turn = |planned: &str| cron.turn(at(planned), now, CatchUp::default());
    let start = |next: &str| Turn::Start { next: Some(at(next)) };
    let miss = |next: &str, count, at_least| Turn::Miss {
        next: Some(at(next)),
        missed: Missed { count, at_least },
    };
    assert_eq!(turn("2026-01-01T12:10:00Z"), Turn::Wait);
    assert_eq!(turn("2026-01-01T12:00:00Z"), start("2026-01-01T12:10:00Z"));
    assert_eq!(turn("2026-01-01T11:10:00Z"), start("2026-01-01T11:20:00Z"), "55 minutes late");
    assert_eq!(
        turn("2026-01-01T11:00:00Z"),
        miss("2026-01-01T11:10:00Z", 1, false),
        "65 minutes late"
    );
    assert_eq!(
        turn("2025-01-01T00:00:00Z"),
        miss("2026-01-01T11:10:00Z", 1000, true),
        "a year late"
    );
    // At exactly an hour late the occurrence starts; a microsecond later it is missed.
    let edge = at("2026-01-01T12:00:00Z");
    let late = |micros| Timestamp::from_micros(edge.micros() + 3_600_000_000 + micros);
    let daily = Cron::parse("@daily", "UTC").unwrap();
    assert!(matches!(daily.turn(edge, late(0), CatchUp::default()), Turn::Start { .. }));
    let tomorrow = at("2026-01-02T00:00:00Z");
    let missed = Missed { count: 1, at_least: false };
    let miss = Turn::Miss { next: Some(tomorrow), missed };
    assert_eq!(daily.turn(edge, late(1), CatchUp::default()), miss);
    let week = CatchUp { window_ms: 7 * 86_400_000, ..CatchUp::default() };
    assert!(
        matches!(daily.turn(edge, late(1), week), Turn::Start { .. }),
        "must start within a longer window"
    );
    let none = CatchUp { window_ms: 0, ..CatchUp::default() };
    assert!(
        matches!(daily.turn(edge, edge, none), Turn::Start { .. }),
        "an occurrence on time must start"
    );
}

#[test]
fn of_too_many_missed_the_latest_run() {
    let cron = Cron::parse("* * * * * *", "UTC").unwrap();
    let (began, now) = (at("2026-01-01T11:30:00Z"), at("2026-01-01T12:00:00Z"));
    let (mut planned, mut started, mut missed) = (began, Vec::new(), 0);
    loop {
        planned = match cron.turn(planned, now, CatchUp::default()) {
            Turn::Wait => break,
            Turn::Start { next } => {
                started.push(planned);
                next.expect("there is always another second")
            }
            Turn::Miss { next, missed: Missed { count, at_least } } => {
                missed += 1;
                assert_eq!(
                    (count, at_least),
                    (1000, true),
                    "the count of missed occurrences must stop at 1000"
                );
                next.expect("there is always another second")
            }
        };
    }
    assert_eq!(missed, 1, "all missed occurrences must be reported together");
    assert!((50..=100).contains(&started.len()), "{}", started.len());
    assert_eq!(started.last(), Some(&now));
    assert!(started.windows(2).all(|two| two[1].micros() - two[0].micros() == 1_000_000));
}

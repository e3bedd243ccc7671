use super::*;

/// Returns a scene in which the streams `a-1` and `a-2` are blocked after their first event, and
/// `b-1` and `A-1` are not.
fn stuck() -> Scene {
    let mut scene = Scene::plain();
    for stream in ["a-1", "a-2", "b-1", "A-1"] {
        scene.commit(stream, 3);
        let leased = scene.claim(ANN);
        scene.ack(&leased, 0);
        if stream.starts_with('a') {
            while scene.sub(stream).blocked.is_none() {
                let leased = scene.claim(ANN);
                scene.fail(&leased, 0);
            }
        } else {
            let leased = scene.claim(ANN);
            scene.ack(&leased, 2);
        }
    }
    scene.world.pass_ms(100);
    scene
}

fn filter(value: serde_json::Value) -> StreamSelection {
    StreamSelection::Where(serde_json::from_value(value).unwrap())
}

fn repair(scene: &Scene, remedy: Remedy, which: StreamSelection) -> Repair {
    Repair { ws: ws(), follower: scene.follower(), remedy, which }
}

/// Finds streams and repairs them, in pages of two, as an engine does.
fn run(
    scene: &mut Scene,
    remedy: Remedy,
    which: StreamSelection,
) -> Result<Vec<String>, ReactionRefusal> {
    let repair = repair(scene, remedy, which);
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = scene.world.decide(|draft| repair.find(draft, after.as_deref(), 2))?;
        let Some(last) = page.last().cloned() else { return Ok(all) };
        all.extend(scene.world.decide(|draft| repair.apply(draft, &page))?);
        after = Some(last);
    }
}

/// spec B206
#[test]
fn an_unblocked_stream_goes_on_after_the_last_acked_event() {
    let mut scene = stuck();
    let names = StreamSelection::Names(vec!["a-1".to_owned()]);
    assert_eq!(run(&mut scene, Remedy::Unblock, names).unwrap(), ["a-1"]);
    let leased = scene.claim(BOB);
    assert_eq!((&*leased.lease.stream, leased.at), ("a-1", 0));
    let sub = scene.sub("a-1");
    assert_eq!((sub.failures, sub.claims, &sub.error), (0, 1, &None));
}

/// spec B207
#[test]
fn a_reset_stream_is_replayed_from_its_first_event() {
    let mut scene = stuck();
    let names = ["a-1", "b-1", "b-1", "none"].map(str::to_owned);
    let follower = scene.follower();
    let done = scene.world.decide(|draft| reset(draft, &ws(), &follower, &names)).unwrap();
    assert_eq!(done, ["a-1", "b-1"]);
    let claimed = scene.claim_all(BOB, 9).leased;
    let places: Vec<_> = claimed.iter().map(|it| (&*it.lease.stream, it.at, it.want)).collect();
    assert_eq!(places, [("a-1", -1, 2), ("b-1", -1, 2)]);
}

/// spec B208–B211, N70, N71
#[test]
fn names_and_filters_mean_what_they_say() {
    use serde_json::json;
    let names =
        |names: &[&str]| StreamSelection::Names(names.iter().map(|&it| it.to_owned()).collect());
    let unblocked: [(StreamSelection, &[&str]); 10] = [
        (filter(json!({})), &["a-1", "a-2"]),
        (StreamSelection::All, &["a-1", "a-2"]),
        (names(&[]), &[]),
        (names(&["a-2", "b-1", "none"]), &["a-2"]),
        (filter(json!({"stream": "^a-"})), &["a-1", "a-2"]),
        (filter(json!({"stream": "-1$"})), &["a-1"]),
        (filter(json!({"stream": "^A-1$"})), &[]),
        (filter(json!({"blocked": false})), &[]),
        (filter(json!({"source": "*", "stream": "2"})), &["a-2"]),
        (filter(json!({"source": "orders-*"})), &[]),
    ];
    for (which, streams) in unblocked {
        let shown = format!("{which:?}");
        assert_eq!(run(&mut stuck(), Remedy::Unblock, which).unwrap(), streams, "{shown}");
    }
    let reset: [(StreamSelection, &[&str]); 5] = [
        (StreamSelection::All, &["A-1", "a-1", "a-2", "b-1"]),
        (names(&[]), &[]),
        (filter(json!({"blocked": true})), &["a-1", "a-2"]),
        (filter(json!({"blocked": false})), &["A-1", "b-1"]),
        (filter(json!({"stream": "-1"})), &["A-1", "a-1", "b-1"]),
    ];
    for (which, streams) in reset {
        let shown = format!("{which:?}");
        assert_eq!(run(&mut stuck(), Remedy::Reset, which).unwrap(), streams, "{shown}");
    }
}

#[test]
fn a_reset_without_any_restriction_has_to_be_meant() {
    let mut scene = stuck();
    let before = scene.world.rows.clone();
    let refusal = run(&mut scene, Remedy::Reset, filter(serde_json::json!({}))).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "reaction `mail`: a reset of all streams needs all: true, or give a filter"
    );
    let empty = repair(&scene, Remedy::Reset, StreamSelection::Where(Filter::default()));
    let names = ["a-1".to_owned()];
    scene.world.decide(|draft| empty.apply(draft, &names)).unwrap_err();
    assert_eq!(scene.world.rows, before);
}

/// spec N70
#[test]
fn what_looks_like_another_kind_of_pattern_is_refused() {
    let bad = [
        "a.*", "a+", "a?", "(a", "a)", "[a]", "a{2}", "a|b", "a\\d", "a%", "a^b", "a$b", "^^a",
        "a$$", "", "^", "$", "^$",
    ];
    for text in bad {
        let error = Pattern::parse(text).unwrap_err();
        assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        assert_eq!(error.code(), "bad_stream_filter");
    }
    assert_eq!(
        Pattern::parse("a.*").unwrap_err().to_string(),
        "stream filter `a.*`: the special character `*` is not allowed; write plain text with ^ in \
         front or $ at the end, or give the streams by name"
    );
    assert!(serde_json::from_value::<Filter>(serde_json::json!({"stream": "a*"})).is_err());
    assert!(serde_json::from_value::<Filter>(serde_json::json!({"streams": "a"})).is_err());
    let dotted = Pattern::parse("^a.b_").unwrap();
    assert!(dotted.matches("a.b_c") && !dotted.matches("axb_c"));
}

#[test]
fn premises_are_asked_again_when_a_page_is_mended() {
    let mut scene = stuck();
    let blocked = repair(&scene, Remedy::Reset, filter(serde_json::json!({"blocked": true})));
    let page = scene.world.decide(|draft| blocked.find(draft, None, 9)).unwrap();
    assert_eq!(page, ["a-1", "a-2"]);
    run(&mut scene, Remedy::Unblock, StreamSelection::Names(vec!["a-1".to_owned()])).unwrap();
    assert_eq!(scene.world.decide(|draft| blocked.apply(draft, &page)).unwrap(), ["a-2"]);
}

#[test]
fn a_reset_frees_no_lease_but_its_holder_can_move_nothing() {
    let mut scene = Scene::plain();
    scene.commit("a", 3);
    let leased = scene.claim(ANN);
    run(&mut scene, Remedy::Reset, StreamSelection::All).unwrap();
    assert_eq!(scene.claim_all(BOB, 9), Claimed::default(), "a reset has released the lease");
    assert_eq!(scene.ack(&leased, 2), Outcome::Lost);
    scene.world.now = leased.until;
    assert_eq!(scene.claim(BOB).at, -1);
}

#[test]
fn thousands_of_places_are_all_found() {
    let mut scene = Scene::plain();
    for n in 0..2500 {
        scene.commit(&format!("s-{n}"), 1);
    }
    let all = repair(&scene, Remedy::Reset, StreamSelection::All);
    let found = scene.world.decide(|draft| all.find(draft, None, 9999)).unwrap();
    assert_eq!(found.len(), 2500);
}

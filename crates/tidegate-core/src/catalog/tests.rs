use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json::Payload;

/// Random change of a workspace's definitions. There are only a few names, so that changes often
/// concern the same workflow.
#[derive(Clone, Debug)]
struct Drawn {
    name: usize,
    version: u32,
    released: bool,
    triggers: usize,
}

const NAMES: [&str; 3] = ["a", "order.paid", "order"];
const TRIGGERS: [&[&str]; 5] =
    [&[], &["a"], &["order.*", "order.paid"], &["*"], &["stream:paid", "stream:o*"]];
const EVENTS: [&str; 6] = ["a", "order", "order.paid", "ordér", "stream:paid", "stream:other"];

fn drawn() -> impl Strategy<Value = Drawn> {
    (0..NAMES.len(), 0..4_u32, any::<bool>(), 0..TRIGGERS.len())
        .prop_map(|(name, version, released, triggers)| Drawn { name, version, released, triggers })
}

/// Returns the definition row of a change. The same version of a workflow always gets the same
/// lane, as when its row is written again.
fn row(drawn: &Drawn, release: i64) -> Def {
    let name = NAMES[drawn.name];
    let triggers = TRIGGERS[drawn.triggers];
    let definition = json!({ "name": name, "version": drawn.version.max(1), "triggers": triggers });
    let workflow = Definition::parse(&definition).expect("the definition is valid").value;
    let body = serde_json::to_value(&workflow).expect("a definition is serializable");
    let lane = i64::from(drawn.version) * 10 + i64::try_from(drawn.name).unwrap_or_default();
    Def {
        lane: Seq(lane),
        ws: "w".into(),
        app: "default".to_owned(),
        name: name.to_owned(),
        version: drawn.version,
        body: if drawn.version == RETIRED { Payload::null() } else { Payload::from_value(&body) },
        released: (drawn.released || drawn.version == RETIRED).then_some(release),
        assigned: None,
        deployed: false,
    }
}

/// Returns the results of all queries of a catalog, as text.
fn answers(catalog: &Catalog) -> Vec<String> {
    let version = |it: &Version| (it.number, it.lane, it.turn, it.release);
    let entries = catalog.entries().map(|(name, entry)| {
        let versions: Vec<_> = entry.versions.values().map(version).collect();
        let open = entry.open().map(|current| (version(&current.version), &current.workflow));
        format!("{name:?} {versions:?} {open:?} {}", entry.is_retired())
    });
    let events = EVENTS.iter().map(|event| {
        let triggered = catalog.triggered(event);
        let names: Vec<_> = triggered.iter().map(|current| &current.workflow.name).collect();
        format!("{event} {names:?} {}", catalog.has_stream_trigger(event))
    });
    let lanes = catalog.lanes.values().map(|it| format!("{:?}", version(it)));
    let rest = format!("{} {}", catalog.epoch, catalog.last_release());
    entries.chain(events).chain(lanes).chain([rest]).collect()
}

proptest! {
    /// A catalog that has applied all changes one by one gives the same results as a catalog that
    /// was built from all rows.
    #[test]
    fn changes_come_to_the_same_as_all_rows(changes in prop::collection::vec(drawn(), 1..20)) {
        let mut rows: BTreeMap<Seq, Def> = BTreeMap::new();
        let mut followed = Catalog::default();
        for (at, change) in (1_i64..).zip(&changes) {
            let mut def = row(change, at);
            // A row that was released once stays released.
            def.released = def.released.or(rows.get(&def.lane).and_then(|row| row.released));
            let before = followed.epoch;
            followed = followed.advance(at, [def.clone()]).expect("it can be read");
            let names: Vec<_> =
                followed.changed_after(before).map(|entry| entry.changed).collect();
            prop_assert_eq!(names, vec![at], "changed_after does not return only the last change");
            rows.insert(def.lane, def);
            let built = Catalog::build(at, rows.values().cloned().collect());
            prop_assert_eq!(answers(&followed), answers(&built.expect("it can be read")));
        }
        prop_assert_eq!(followed.changed_after(i64::MIN).count(), followed.entries().count());
    }
}

#[test]
fn an_older_catalog_stays_as_it_was() {
    let change = |version| Drawn { name: 0, version, released: true, triggers: 1 };
    let first = Catalog::build(1, vec![row(&change(1), 1)]).expect("it can be read");
    let before = answers(&first);
    let second = first.advance(2, [row(&change(2), 2)]).expect("it can be read");
    assert_eq!(answers(&first), before);
    assert_ne!(answers(&second), before);
}

//! Schemas that pydantic, zod and schemars have written are accepted, and checks with them agree
//! with the tools.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::{definition::Definition, schema::check};

#[derive(Deserialize)]
struct Case {
    name: String,
    schema: Value,
    values: Vec<Judged>,
}

/// A value, and whether the tool accepts it.
#[derive(Deserialize)]
struct Judged {
    value: Value,
    fits: bool,
}

/// Values that a tool refuses although its schema allows them: the case and a part of the value.
const LENIENT: [(&str, &str); 2] = [
    // schemars writes no maximum for u32.
    ("order", "4294967296"),
    // pydantic writes `patternProperties` without `additionalProperties`.
    ("odd", "{\"A\":1}"),
];

/// Parses a definition with this schema. Returns its warnings.
fn accept(schema: &Value) -> Result<Vec<String>, String> {
    let action = json!({ "flow": "f", "name": "a", "schema": schema });
    let parsed = Definition::parse(&action).map_err(|errors| errors.to_string())?;
    Ok(parsed.warnings.iter().map(ToString::to_string).collect())
}

/// Compares the results of `check` with those of the tool.
fn judge(text: &str) {
    let cases: Vec<Case> = serde_json::from_str(text).unwrap();
    assert!(!cases.is_empty());
    for Case { name, schema, values } in cases {
        assert_eq!(accept(&schema), Ok(Vec::new()), "{name}");
        assert!(values.iter().any(|it| it.fits) && values.iter().any(|it| !it.fits), "{name}");
        for Judged { value, fits } in values {
            let checked = check(&schema, &value, "input");
            let text = value.to_string();
            let lenient = LENIENT.iter().any(|it| it.0 == name && text.contains(it.1));
            let expected = fits || lenient;
            assert_eq!(checked.is_ok(), expected, "{name}: wrong result for {text}: {checked:?}");
        }
    }
}

#[test]
fn schemas_of_pydantic_judge_as_pydantic_does() {
    judge(include_str!("schemas/pydantic.json"));
}

#[test]
fn schemas_of_zod_judge_as_zod_does() {
    judge(include_str!("schemas/zod.json"));
}

/// The types whose schemas are in `schemars.json`.
#[cfg(feature = "schemars")]
mod rust {
    use std::collections::{BTreeMap, BTreeSet};

    use expect_test::expect_file;
    use schemars::{JsonSchema, schema_for};
    use serde::{Deserialize, de::DeserializeOwned};
    use serde_json::{Value, json};

    use super::judge;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[expect(dead_code, reason = "only deserialized")]
    struct Order {
        id: u32,
        #[schemars(length(min = 1, max = 3))]
        lines: Vec<Line>,
        note: Option<String>,
        #[serde(default)]
        tags: BTreeSet<String>,
        by_number: BTreeMap<u8, bool>,
        pair: (i8, String),
        payment: Payment,
        to: Contact,
        parent: Option<Box<Order>>,
        #[serde(default)]
        size: Size,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only deserialized")]
    struct Line {
        /// The number of an article.
        sku: String,
        count: u16,
        #[serde(flatten)]
        price: Price,
    }

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only deserialized")]
    struct Price {
        cents: u64,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(tag = "type", rename_all = "camelCase")]
    #[expect(dead_code, reason = "only deserialized")]
    enum Payment {
        Card { number: String },
        Invoice { days: u8 },
        Cash,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only deserialized")]
    enum Contact {
        Nobody,
        Mail(String),
        Post { street: String },
    }

    #[derive(Default, Deserialize, JsonSchema)]
    enum Size {
        #[default]
        Small,
        Large,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only deserialized")]
    enum Loose {
        Flag(bool),
        Numbers(Vec<f64>),
        Named { name: String },
    }

    fn case<T: DeserializeOwned + JsonSchema>(name: &str, values: Vec<Value>) -> Value {
        let judged = values.into_iter().map(|value| {
            let fits = serde_json::from_value::<T>(value.clone()).is_ok();
            json!({ "value": value, "fits": fits })
        });
        let judged: Vec<_> = judged.collect();
        json!({ "name": name, "schema": schema_for!(T), "values": judged })
    }

    fn orders() -> Vec<Value> {
        let order = json!({
            "id": 1, "lines": [{ "sku": "a", "count": 1, "cents": 5 }], "byNumber": { "7": true },
            "pair": [1, "a"], "payment": { "type": "cash" }, "to": "nobody",
        });
        let mut orders = vec![order.clone()];
        for (member, value) in [
            ("id", json!(-1)),
            ("id", json!(4_294_967_296_u64)),
            ("lines", json!([{ "sku": "a", "count": 1 }])),
            ("lines", json!([{ "sku": "a", "count": 65_536, "cents": 5 }])),
            ("note", json!(null)),
            ("note", json!(1)),
            ("tags", json!(["a", "b"])),
            ("byNumber", json!({ "7": 1 })),
            ("pair", json!([1])),
            ("pair", json!([128, "a"])),
            ("payment", json!({ "type": "card", "number": "1" })),
            ("payment", json!({ "type": "card" })),
            ("payment", json!({ "type": "gold" })),
            ("to", json!({ "mail": "a" })),
            ("to", json!({ "post": { "street": "a" } })),
            ("to", json!({ "post": {} })),
            ("to", json!("somebody")),
            ("parent", order.clone()),
            ("parent", json!({ "id": 1 })),
            ("size", json!("Large")),
            ("size", json!("Huge")),
            ("more", json!(1)),
        ] {
            let mut changed = order.clone();
            changed[member] = value;
            orders.push(changed);
        }
        orders
    }

    #[test]
    fn schemas_of_schemars_judge_as_serde_does() {
        let loose = [json!(true), json!([1, 2.5]), json!({ "name": "a" }), json!(["a"]), json!(1)];
        let cases = json!([case::<Order>("order", orders()), case::<Loose>("loose", loose.into())]);
        let text = format!("{cases:#}\n");
        expect_file!["schemas/schemars.json"].assert_eq(&text);
        judge(&text);
    }
}

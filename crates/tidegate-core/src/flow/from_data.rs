//! Numbers from data: a number of a control that each input brings along.
//!
//! A number of a definition may be an object that names a path in the data or an expression, the
//! range that its value is brought into, and a default. It is read when the run is admitted.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::key_source;
use crate::{
    definition::{Code, Fields, Kind, Reported, shorten_text, whole},
    expr::{Formula, Mode},
    key::Path,
    row::{Event, Number},
};

/// The fields of the object.
const FIELDS: [&str; 4] = ["from", "default", "min", "max"];

/// Where a number is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NumberSource {
    /// The value at a path.
    Path(Path),
    /// The result of an expression. In lenient mode an error or a result that is no number becomes
    /// the default, and a fraction is cut off.
    Expr {
        /// The expression.
        expr: Formula,
    },
}

impl NumberSource {
    fn read(fields: &mut Fields<'_>) -> Result<NumberSource, Reported> {
        let rule = "the path of a number in the data, or `{\"expr\": …}`";
        if let Some(value @ Value::Object(_)) = fields.get("from") {
            let at = fields.field("from");
            let mut fields = Fields::open(value, &at, &["expr"], fields.problems())?;
            let expr = fields.formula("expr")?;
            let expr = expr.ok_or_else(|| fields.missing("expr", "an expression"))?;
            return Ok(NumberSource::Expr { expr });
        }
        let path = fields.path("from")?.ok_or_else(|| fields.missing("from", rule))?;
        Ok(NumberSource::Path(path))
    }

    /// Returns the text of the value for an input, as JSON; none if there is no value.
    fn text(&self, event: &Event) -> Result<Option<String>, String> {
        let text = match self {
            Self::Path(path) => event.data.text_at(path).map(str::to_owned),
            Self::Expr { expr } if expr.mode() == Mode::Lenient => {
                let text = key_source::value_of(expr, event).unwrap_or_default();
                let number = serde_json::from_str::<Value>(&text).ok().and_then(|it| it.as_f64());
                number.map(|number| number.trunc().to_string())
            }
            Self::Expr { expr } => Some(key_source::value_of(expr, event)?),
        };
        Ok(text.filter(|text| text != "null"))
    }
}

impl fmt::Display for NumberSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Expr { expr } => f.write_str(&shorten_text(expr.text())),
        }
    }
}

/// Number that is read from the data of each input (spec L12, L14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromData {
    /// The source of the number.
    pub from: NumberSource,
    /// The number of an input without a value there.
    pub default: i64,
    /// The lowest number; lower ones become it.
    pub min: i64,
    /// The highest number; higher ones become it.
    pub max: i64,
}

impl FromData {
    /// Whether the value of a field is such an object.
    pub(crate) fn is_in(fields: &Fields<'_>, name: &str) -> bool {
        fields.get(name).is_some_and(Value::is_object)
    }

    /// Reads the object in a field. Its numbers are from `least` to `most`. The default is `usual`,
    /// or the nearest number in the range.
    pub(crate) fn read(
        fields: &mut Fields<'_>,
        name: &str,
        (least, most): (i64, i64),
        usual: i64,
    ) -> Result<FromData, Reported> {
        let (value, at) = (fields.get(name).unwrap_or(&Value::Null), fields.field(name));
        let mut fields = Fields::open(value, &at, &FIELDS, fields.problems())?;
        let rule = "a whole number";
        let from = NumberSource::read(&mut fields);
        let min = fields.integer("min", least, most);
        let min = min.and_then(|min| min.ok_or_else(|| fields.missing("min", rule)));
        let max = fields.integer("max", least, most);
        let max = max.and_then(|max| max.ok_or_else(|| fields.missing("max", rule)));
        let default = fields.integer("default", least, most);
        let (from, min, max, default) = (from?, min?, max?, default?);
        if max < min {
            let message = format!("must be at least min ({min}), got {max}");
            return Err(fields.error(Code::OutOfRange, "max", message));
        }
        if let Some(default) = default.filter(|default| !(min..=max).contains(default)) {
            let message = format!("must be from min ({min}) to max ({max}), got {default}");
            return Err(fields.error(Code::OutOfRange, "default", message));
        }
        let default = default.unwrap_or(usual.clamp(min, max));
        Ok(FromData { from, default, min, max })
    }

    /// Returns the number of one input, or why its value is none. `name` is the field's name.
    pub(crate) fn of(&self, name: &str, event: &Event) -> Result<i64, String> {
        let Some(text) = self.from.text(event)? else { return Ok(self.default) };
        let value = serde_json::from_str::<Value>(&text).ok();
        let number = value.as_ref().and_then(|value| self.within(value));
        number.ok_or_else(|| {
            let shown = shorten_text(&text);
            format!("{name} `{}` must be a whole number, got {shown}", self.from)
        })
    }

    /// Returns a whole number, brought into the range.
    fn within(&self, value: &Value) -> Option<i64> {
        let below = value.as_f64()?.is_sign_negative();
        let positive = if below { whole(&negated(value)?) } else { whole(value) };
        let number = match positive {
            Some(number) if below => 0_i64.checked_sub_unsigned(number).unwrap_or(i64::MIN),
            Some(number) => i64::try_from(number).unwrap_or(i64::MAX),
            // A whole number that is too large for an integer.
            None if value.as_f64()?.fract() == 0.0 && below => i64::MIN,
            None if value.as_f64()?.fract() == 0.0 => i64::MAX,
            None => return None,
        };
        Some(number.clamp(self.min, self.max))
    }
}

/// Returns a negative number without its sign.
fn negated(value: &Value) -> Option<Value> {
    match value.as_i64() {
        Some(number) => Some(Value::from(number.unsigned_abs())),
        None => serde_json::Number::from_f64(-value.as_f64()?).map(Value::Number),
    }
}

/// Number of a limit (spec L12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// The same for every run.
    Fixed(u32),
    /// That of the newest run of the key.
    From(FromData),
}

impl Amount {
    /// Reads an optional number of a limit.
    pub(crate) fn read(fields: &mut Fields<'_>, name: &str) -> Result<Option<Amount>, Reported> {
        if !FromData::is_in(fields, name) {
            return Ok(fields.optional_count(name)?.map(Amount::Fixed));
        }
        if fields.problems().kind == Kind::Pool {
            let rule = "cannot be read from the data, because several workflows share the pool";
            let message = format!("{rule}: write a number, or change it by an override");
            return Err(fields.error(Code::Misplaced, name, message));
        }
        FromData::read(fields, name, (1, u32::MAX.into()), 1).map(Amount::From).map(Some)
    }

    /// As [`Amount::read`], for a required number.
    pub(crate) fn required(fields: &mut Fields<'_>, name: &str) -> Result<Amount, Reported> {
        let rule = "a whole number of at least 1";
        Self::read(fields, name)?.ok_or_else(|| fields.missing(name, rule))
    }

    /// Returns the number that applies. One from data stays in the range of the definition, which
    /// may be another than when it was read.
    pub(crate) fn number(&self, number: Number) -> u32 {
        let of = match self {
            Self::Fixed(number) => return *number,
            Self::From(of) => of,
        };
        let number = match number {
            Number::Of(given) => given.map_or(of.default, i64::from),
            Number::Lowest => of.min,
            Number::Highest => of.max,
        };
        u32::try_from(number.clamp(of.min, of.max)).expect("read() has checked the range")
    }

    /// Returns the number that an input has; none if the definition has it itself.
    pub(crate) fn given(&self, name: &str, event: &Event) -> Result<Option<u32>, String> {
        let Self::From(of) = self else { return Ok(None) };
        let number = of.of(name, event)?;
        Ok(Some(u32::try_from(number).expect("read() has checked the range")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        definition::{Definition, testing::reread},
        flow::priority::{Priority, Shift},
        id::{EventId, Seq},
        json::Payload,
        pool::Pool,
        row,
        time::Timestamp,
    };

    fn seats(min: i64, max: i64) -> FromData {
        let from = NumberSource::Path(Path::parse("plan.seats").unwrap());
        FromData { from, default: 2, min, max }
    }

    fn event(data: &str) -> Event {
        let data = Payload::parse(data.as_bytes(), usize::MAX).unwrap();
        let (seq, at) = (Seq(1), Timestamp::from_micros(1_000_000));
        let (id, ws, kind) = (EventId { seq, salt: 0 }, "default".into(), row::Kind::Event);
        Event {
            id,
            ws,
            kind,
            name: "a".to_owned(),
            at,
            ts: None,
            data,
            delivery: None,
            attributes: None,
        }
    }

    fn of(number: &FromData, seats: &str) -> Result<i64, String> {
        number.of("limit", &event(&format!(r#"{{"plan":{{"seats":{seats}}}}}"#)))
    }

    /// spec L12, L14: whole numbers are brought into the range, and a missing one is the default.
    #[test]
    fn whole_numbers_are_brought_into_the_range() {
        let (count, shift) = (seats(1, 100), seats(-50, 50));
        for (value, expected, shifted) in [
            ("7", 7, 7),
            ("7.0", 7, 7),
            ("7e1", 70, 50),
            ("0", 1, 0),
            ("-3", 1, -3),
            ("-3.0", 1, -3),
            ("-0", 1, 0),
            ("-0.0", 1, 0),
            ("1e300", 100, 50),
            ("-1e300", 1, -50),
            ("18446744073709551615", 100, 50),
            ("-9223372036854775808", 1, -50),
            ("null", 2, 2),
        ] {
            assert_eq!(of(&count, value), Ok(expected), "{value}");
            assert_eq!(of(&shift, value), Ok(shifted), "{value}");
        }
        assert_eq!(count.of("limit", &event("{}")), Ok(2));
    }

    /// spec L12, L14: an expression gives the number; a lenient one always gives one.
    #[test]
    fn an_expression_gives_the_number() {
        let number = |expr: Value| {
            let controls = json!({ "name": "w", "priority": { "shiftMs": {
                "from": { "expr": expr }, "min": -5000, "max": 5000, "default": 7,
            } } });
            let Some(Priority { shift_ms: Shift::From(number) }) =
                Definition::parse(&controls).unwrap().value.priority
            else {
                panic!("a number from data")
            };
            number.of("shiftMs", &event(r#"{"n":2,"text":"x"}"#))
        };
        for (text, expected) in [
            ("event.data.n * 1000", Ok(2000)),
            ("event.data.n * -9000", Ok(-5000)),
            ("event.data.n > 5 ? 1 : null", Ok(7)),
        ] {
            assert_eq!(number(json!(text)), expected, "{text}");
            assert_eq!(number(json!({ "lenient": text })), expected, "{text}");
        }
        for (text, lenient) in [
            ("event.data.n / 4", 0),
            ("event.data.n * -0.7", -1),
            ("event.data.n * -0.25", 0),
            ("event.data.n * 1e400", 7),
            ("event.data.text", 7),
            ("event.data.text * 2", 7),
            ("event.data.n == 2", 7),
        ] {
            assert!(number(json!(text)).is_err(), "{text}");
            assert_eq!(number(json!({ "lenient": text })), Ok(lenient), "{text}");
        }
        assert_eq!(number(json!({ "lenient": "event.data.none * 9" })), Ok(0));
    }

    // spec L12, L14, A4
    #[test]
    fn numbers_from_data_are_checked_when_they_are_defined() {
        let seats = json!({ "from": "plan.seats", "default": 2, "min": 1, "max": 100 });
        let bare = json!({ "from": "plan.seats", "min": 3, "max": 3 });
        let limit = |limit: &Value| json!({ "concurrency": { "limit": limit } });
        let rate = |limit: &Value, burst: &Value| json!({ "rateLimit": { "limit": limit, "perMs": 5, "burst": burst } });
        let shift = |shift: Value| json!({ "priority": { "shiftMs": shift } });
        let range = |min: Value, max: Value| json!({ "from": "a", "min": min, "max": max });
        for (controls, expected) in [
            (limit(&seats), "ok"),
            (limit(&bare), "ok"),
            (rate(&seats, &json!(7)), "ok"),
            (rate(&json!(7), &seats), "ok"),
            (json!({ "throttle": { "limit": seats, "perMs": 5 } }), "ok"),
            (json!({ "rateLimit": { "limit": seats, "perMs": 5 } }), "ok"),
            (shift(json!(-60_000)), "ok"),
            (shift(range(json!(-60_000), json!(0))), "ok"),
            (limit(&json!({})), "concurrency.limit.from is required"),
            (limit(&json!({ "from": "a", "max": 3 })), "concurrency.limit.min is required"),
            (limit(&json!({ "from": "a", "min": 3 })), "concurrency.limit.max is required"),
            (limit(&range(json!(5), json!(4))), "limit.max must be at least min (5), got 4"),
            (limit(&range(json!(0), json!(4))), "limit.min must be at least 1, got 0"),
            (limit(&range(json!(-1), json!(4))), "limit.min must be at least 1, got -1"),
            (limit(&range(json!(1), json!(1e10))), "limit.max must be at most 4294967295"),
            (
                limit(&json!({ "from": "a", "min": 1, "max": 4, "default": 5 })),
                "concurrency.limit.default must be from min (1) to max (4), got 5",
            ),
            (
                limit(&json!({ "from": "a", "min": 1, "max": 4, "or": 5 })),
                "concurrency.limit.or is not known: known are `from`, `default`, `min`, `max`",
            ),
            (limit(&json!({ "from": 7, "min": 1, "max": 4 })), "concurrency.limit.from"),
            (
                json!({ "concurrency": { "limit": seats, "cost": 101 } }),
                "concurrency.cost must be at most the limit (100), got 101",
            ),
            (shift(json!(-0.5)), "priority.shiftMs must be a whole number, got -0.5"),
            (shift(json!(-31_536_000_001_i64)), "must be at least -31536000000, got -31536000001"),
            (shift(json!(-1e30)), "priority.shiftMs must be at least -31536000000, got -1e+30"),
            (shift(range(json!(1.5), json!(2))), "priority.shiftMs.min must be a whole number"),
            (
                json!({ "throttle": {
                    "limit": { "from": "a", "min": 1, "max": 9 }, "perMs": 31_536_000_000_u64,
                    "burst": { "from": "a", "min": 1, "max": 101 },
                } }),
                "throttle.burst of 101 takes more than 100 years to come back at 1",
            ),
        ] {
            let errors = reread(&controls);
            assert!(errors.contains(expected), "{controls}: {errors}");
        }
        let pool = json!({ "name": "p", "concurrency": { "limit": seats } });
        let errors = Pool::parse(&pool).unwrap_err().to_string();
        let expected = "concurrency.limit cannot be read from the data, because several workflows";
        assert!(errors.contains(expected), "{errors}");
    }

    /// spec L12: a number of an event stays in the range of the current release.
    #[test]
    fn a_number_stays_in_the_range_of_the_release() {
        let from = Amount::From(seats(3, 5));
        for (given, number) in [(Some(1), 3), (Some(4), 4), (Some(9), 5), (None, 3)] {
            assert_eq!(from.number(Number::Of(given)), number, "{given:?}");
        }
        assert_eq!((from.number(Number::Lowest), from.number(Number::Highest)), (3, 5));
        assert_eq!(Amount::Fixed(7).number(Number::Of(Some(4))), 7);
    }

    /// spec L12, L14: a value of another type is no number.
    #[test]
    fn other_values_are_named_in_the_reason() {
        for value in ["\"7\"", "true", "1.5", "-0.5", "[7]", "{\"n\":7}", "\"\""] {
            let reason = format!("limit `plan.seats` must be a whole number, got {value}");
            assert_eq!(of(&seats(1, 100), value), Err(reason));
        }
    }
}

//! Definitions of tests, from the fields in question.

use serde_json::{Value, json};

use super::Definition;

/// Returns a workflow `w` with these fields, or an action of the flow `f` if the fields contain
/// `flow`.
pub(crate) fn define(fields: &Value) -> Value {
    let mut value = json!({"name": "w"});
    value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    value
}

/// Returns the errors of a workflow with these fields, or else its warnings, one per line.
pub(crate) fn problems(fields: &Value) -> String {
    let problems = match Definition::parse(&define(fields)) {
        Ok(parsed) => parsed.warnings,
        Err(errors) => errors.0,
    };
    problems.iter().map(|problem| problem.to_string() + "\n").collect()
}

/// Returns the errors of a workflow or action with these fields, or `ok` if both of its forms are
/// read again as they were.
#[track_caller]
pub(crate) fn reread(fields: &Value) -> String {
    match Definition::parse(&define(fields)) {
        Ok(parsed) => {
            assert_eq!(parsed.warnings, []);
            let again = Definition::parse(&parsed.value.to_value()).unwrap();
            assert_eq!(again.value, parsed.value);
            let stored = serde_json::to_value(&parsed.value).unwrap();
            assert_eq!(serde_json::from_value::<Definition>(stored).unwrap(), parsed.value);
            "ok".to_owned()
        }
        Err(errors) => errors.to_string(),
    }
}

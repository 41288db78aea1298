//! Capacity of a device that several claims may share.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::lists::check_set;
use crate::view;

/// Maximum number of valid values, as in kube-apiserver.
const MAX_VALUES: usize = 10;

/// Validates how much of a capacity a claim may request.
pub(super) fn check_policy(capacity: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = capacity.get("requestPolicy") else { return };
    let path = path.child("requestPolicy");
    let Some(total) = quantity(capacity, "value") else { return };
    let (values, range) = (view::items(policy, &["validValues"]), policy.get("validRange"));
    let sort = match (values.is_empty(), range) {
        (false, Some(_)) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" \
                          at the same time";
            errors.push(FieldError::forbidden(&path, detail));
            return;
        }
        (false, None) => "validValues",
        (true, Some(_)) => "validRange",
        (true, None) => return,
    };
    let Some(default) = quantity(policy, "default") else {
        let detail = format!("required when {sort} is defined");
        errors.push(FieldError::required(&path.child("default"), detail));
        return;
    };
    match range {
        Some(range) => check_range(range, &default, &total, &path.child("validRange"), errors),
        None => check_values(values, &default, &total, &path.child("validValues"), errors),
    }
}

fn quantity(owner: &Value, field: &str) -> Option<Quantity> {
    owner.get(field).and_then(|value| Quantity::from_json(value).ok())
}

fn check_values(
    values: &[Value],
    default: &Quantity,
    total: &Quantity,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let parsed: Vec<Quantity> = values.iter().filter_map(|value| Quantity::from_json(value).ok()).collect();
    for (index, pair) in parsed.windows(2).enumerate() {
        if pair[0] > pair[1] {
            let detail = "values must be sorted in ascending order";
            errors.push(FieldError::invalid(&path.index(index + 1), pair[1].to_string(), detail));
        }
    }
    let key = |value: &Value| Quantity::from_json(value).map_or(0, |value| value.value()).to_string();
    check_set(values, MAX_VALUES, path, errors, key, |value, path, errors| {
        if let Some(value) = Quantity::from_json(value).ok().filter(|value| value > total) {
            let detail = format!("option is larger than capacity value: {total}");
            errors.push(FieldError::invalid(path, value.to_string(), detail));
        }
    });
    if !parsed.contains(default) {
        let detail = "default value is not valid according to the requestPolicy";
        errors.push(FieldError::invalid(path, default.to_string(), detail));
    }
}

fn check_range(range: &Value, default: &Quantity, total: &Quantity, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(min) = quantity(range, "min") else {
        let detail = "required when validRange is defined";
        errors.push(FieldError::required(&path.child("min"), detail));
        return;
    };
    let max = quantity(range, "max");
    let mut refuse = |wrong: bool, field: &str, found: &Quantity, detail: String| {
        if wrong {
            errors.push(FieldError::invalid(&path.child(field), found.to_string(), detail));
        }
    };
    refuse(min > *total, "min", &min, format!("min is larger than capacity value: {total}"));
    refuse(*default < min, "min", default, format!("default is less than min: {min}"));
    if let Some(max) = &max {
        refuse(min > *max, "max", &min, format!("min is larger than max: {max}"));
        refuse(max > total, "max", max, format!("max is larger than capacity value: {total}"));
        refuse(default > max, "max", default, format!("default is more than max: {max}"));
    }
    let Some(step) = quantity(range, "step") else { return };
    if let Some(one) = min.checked_add(&step) {
        let detail = format!("one step {one} is larger than capacity value: {total}");
        refuse(one > *total, "step", &step, detail);
    }
    for value in [Some(default), max.as_ref()].into_iter().flatten() {
        // kube-apiserver divides by the step without checks; a step of zero cannot be divided by.
        let is_off_step =
            step.value() == 0 || value.value().wrapping_sub(min.value()).wrapping_rem(step.value()) != 0;
        let detail = format!("value is not a multiple of a given step ({step}) from ({min})");
        refuse(is_off_step, "step", value, detail);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(policy: Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        let capacity = json!({"value": "10", "requestPolicy": policy});
        check_policy(&capacity, &Path::root("c"), &mut errors);
        errors.iter().map(|error| error.field.clone()).collect()
    }

    #[test]
    fn valid_values_must_be_sorted_and_contain_the_default() {
        assert!(faults(json!({"default": "2", "validValues": ["1", "2", "4"]})).is_empty());
        assert_eq!(faults(json!({"default": "3", "validValues": ["1"]})), ["c.requestPolicy.validValues"]);
        assert_eq!(
            faults(json!({"default": "1", "validValues": ["2", "1"]})),
            ["c.requestPolicy.validValues[1]"]
        );
        assert_eq!(
            faults(json!({"default": "1", "validValues": ["1", "20"]})),
            ["c.requestPolicy.validValues[1]"]
        );
        assert_eq!(faults(json!({"validValues": ["1"]})), ["c.requestPolicy.default"]);
    }

    #[test]
    fn valid_range_must_fit_into_the_capacity() {
        assert!(
            faults(json!({"default": "4", "validRange": {"min": "2", "max": "8", "step": "2"}})).is_empty()
        );
        assert_eq!(
            faults(json!({"default": "5", "validRange": {"min": "2", "step": "2"}})),
            ["c.requestPolicy.validRange.step"]
        );
        assert_eq!(
            faults(json!({"default": "1", "validRange": {"min": "2"}})),
            ["c.requestPolicy.validRange.min"]
        );
        assert_eq!(
            faults(json!({"default": "2", "validRange": {"min": "2", "max": "11"}})),
            ["c.requestPolicy.validRange.max"]
        );
        assert_eq!(faults(json!({"default": "2", "validRange": {}})), ["c.requestPolicy.validRange.min"]);
    }
}

//! CEL expressions that select devices: the environment of kube-apiserver's
//! `dynamic-resource-allocation/cel`, and the checks of an expression before it is stored.

use std::sync::{Arc, LazyLock};

use coracle_cel::{Env, SizeEstimate, Sizes, Type, TypeProvider};
use coracle_meta::field::{ErrorList, FieldError, Path};

/// Maximum length of an expression, as in kube-apiserver.
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;

/// Maximum estimated cost of an expression, as in kube-apiserver. The scheduler evaluates an expression for
/// each device.
const MAX_COST: u64 = 1_000_000;

/// The sizes from which kube-apiserver estimates costs: those that validation of a ResourceSlice enforces.
const MAX_DOMAIN_BYTES: u64 = 63;
const MAX_ID_BYTES: u64 = 32;
const MAX_DRIVER_NAME_BYTES: u64 = 63;
const MAX_ATTRIBUTE_BYTES: u64 = 64;
const MAX_ENTRIES: u64 = 32;

const DEVICE_TYPE: &str = "kubernetes.DRADevice";

static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    Env::kubernetes().types(Arc::new(DeviceTypes)).variable("device", Type::object(DEVICE_TYPE)).bindings()
});

/// Checks that an expression compiles, yields a bool, and does not cost too much.
pub(super) fn check(expression: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if expression.len() > MAX_EXPRESSION_BYTES {
        errors.push(FieldError::too_long(path, MAX_EXPRESSION_BYTES));
        return;
    }
    let checked = match ENVIRONMENT.check(expression) {
        Ok(checked) => checked,
        Err(error) => {
            errors.push(FieldError::invalid(path, expression, format!("compilation failed: {error}")));
            return;
        }
    };
    let output = checked.output_type();
    if !matches!(output, Type::Bool | Type::Any) {
        let detail = format!("must evaluate to bool or the unknown type, not {output}");
        errors.push(FieldError::invalid(path, expression, detail));
    } else if let Err(error) = checked.program() {
        errors.push(FieldError::internal(path, format!("program instantiation failed: {error}")));
    } else if checked.estimate(&DeviceTypes).max > MAX_COST {
        errors.push(FieldError::forbidden(path, "too complex, exceeds cost limit"));
    }
}

/// The type of the variable `device`. Attributes and capacities are maps from domains to maps from ids.
struct DeviceTypes;

impl TypeProvider for DeviceTypes {
    fn has_type(&self, name: &str) -> bool {
        name == DEVICE_TYPE
    }

    fn field_type(&self, type_name: &str, field: &str) -> Option<Type> {
        let by_domain = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
        match field {
            _ if type_name != DEVICE_TYPE => None,
            "driver" => Some(Type::String),
            "allowMultipleAllocations" => Some(Type::Bool),
            "attributes" => Some(by_domain(Type::Any)),
            "capacity" => Some(by_domain(Type::object("kubernetes.Quantity"))),
            _ => None,
        }
    }
}

impl Sizes for DeviceTypes {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let max = match path {
            ["device"] => 0,
            ["device", "driver"] => MAX_DRIVER_NAME_BYTES,
            ["device", "allowMultipleAllocations"] => 1,
            ["device", "attributes" | "capacity"] => MAX_ENTRIES,
            ["device", "attributes" | "capacity", "@keys"] => MAX_DOMAIN_BYTES,
            ["device", "attributes" | "capacity", "@items" | "@values"] => MAX_ENTRIES,
            ["device", "attributes" | "capacity", "@items" | "@values", "@keys"] => MAX_ID_BYTES,
            ["device", "capacity", "@items" | "@values", "@items" | "@values"] => 0,
            // The name of an attribute or the step to it: all attributes have the same limit.
            ["device", "attributes", "@items" | "@values", _] => MAX_ATTRIBUTE_BYTES,
            _ => return None,
        };
        Some(SizeEstimate { min: 0, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(expression: &str) -> String {
        let mut errors = ErrorList::new();
        check(expression, &Path::root("e"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn expressions_about_devices_compile() {
        for expression in [
            "true",
            "device.driver == 'gpu.example.com'",
            "device.allowMultipleAllocations",
            "device.attributes['gpu.example.com'].healthy",
            "device.attributes['gpu.example.com'].model == 'x1'",
            "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.2.3'))",
            "device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))",
            "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.index > 2)",
            "'gpu.example.com' in device.attributes",
            "device.attributes['gpu.example.com'].model.matches('^x')",
        ] {
            assert_eq!(faults(expression), "", "{expression}");
        }
    }

    #[test]
    fn expressions_that_do_not_compile_are_rejected() {
        assert_eq!(
            faults("device.name == 'x'"),
            "e: Invalid value: \"device.name == 'x'\": compilation failed: ERROR: <input>:1:7: undefined field \
             'name'\n | device.name == 'x'\n | ......^"
        );
        assert_eq!(
            faults("device.driver"),
            "e: Invalid value: \"device.driver\": must evaluate to bool or the unknown type, not string"
        );
        for (expression, part) in [
            ("", "compilation failed: ERROR: <input>:1:"),
            ("noSuchVariable", "undeclared reference to 'noSuchVariable'"),
            ("device.attributes['a'].x.includes(1)", "undeclared reference to 'includes'"),
        ] {
            assert!(faults(expression).contains(part), "{expression}: {}", faults(expression));
        }
        assert_eq!(
            faults(&"x".repeat(MAX_EXPRESSION_BYTES + 1)),
            "e: Too long: may not be more than 10240 bytes"
        );
    }

    #[test]
    fn expression_beyond_the_cost_limit_is_rejected() {
        let nested = "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, \
                      device.attributes.all(d, a + b + c + d != ''))))";
        assert_eq!(faults(nested), "e: Forbidden: too complex, exceeds cost limit");
    }
}

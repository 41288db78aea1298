//! Authorizer library: `authorizer.group('').resource('pods').check('get').allowed()` etc.

use std::sync::Arc;

use coracle_meta::name::{object_dns_label, object_dns_subdomain};

use crate::EvalError;
use crate::authorizer::{AuthorizerHandle, Check, Decision, ResourceCheck, Subject};
use crate::value::{Extension, Value};

use super::{Function, mismatch};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        overloads: &[(
            "authorizer_path",
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck",
        )],
        call: path,
    },
    Function {
        name: "group",
        overloads: &[(
            "authorizer_group",
            "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck",
        )],
        call: group,
    },
    Function {
        name: "serviceAccount",
        overloads: &[(
            "authorizer_serviceaccount",
            "kubernetes.authorization.Authorizer.(string, string) -> kubernetes.authorization.Authorizer",
        )],
        call: service_account,
    },
    Function {
        name: "resource",
        overloads: &[(
            "groupcheck_resource",
            "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: resource,
    },
    Function {
        name: "subresource",
        overloads: &[(
            "resourcecheck_subresource",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: subresource,
    },
    Function {
        name: "namespace",
        overloads: &[(
            "resourcecheck_namespace",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: namespace,
    },
    Function {
        name: "name",
        overloads: &[(
            "resourcecheck_name",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: name,
    },
    Function {
        name: "fieldSelector",
        overloads: &[(
            "authorizer_fieldselector",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: field_selector,
    },
    Function {
        name: "labelSelector",
        overloads: &[(
            "authorizer_labelselector",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck",
        )],
        call: label_selector,
    },
    Function {
        name: "check",
        overloads: &[
            (
                "pathcheck_check",
                "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
            ),
            (
                "resourcecheck_check",
                "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
            ),
        ],
        call: check,
    },
    Function {
        name: "errored",
        overloads: &[("decision_errored", "kubernetes.authorization.Decision.() -> bool")],
        call: errored,
    },
    Function {
        name: "error",
        overloads: &[("decision_error", "kubernetes.authorization.Decision.() -> string")],
        call: error,
    },
    Function {
        name: "allowed",
        overloads: &[("decision_allowed", "kubernetes.authorization.Decision.() -> bool")],
        call: allowed,
    },
    Function {
        name: "reason",
        overloads: &[("decision_reason", "kubernetes.authorization.Decision.() -> string")],
        call: reason,
    },
];

type Flow<'d> = Result<Value<'d>, EvalError>;

fn inner<'a, 'd>(value: &'a Value<'d>) -> Option<&'a Extension<'d>> {
    if let Value::Extension(extension) = value { Some(&extension.0) } else { None }
}

fn authorizer<'a, 'd>(value: &'a Value<'d>) -> Option<&'a AuthorizerHandle<'d>> {
    match inner(value)? {
        Extension::Authorizer(handle) => Some(handle),
        _ => None,
    }
}

fn path<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, Value::String(path)] = args else { return mismatch() };
    let Some(handle) = authorizer(receiver) else { return mismatch() };
    if path.as_str().trim().is_empty() {
        return Err(EvalError::failed("path must not be empty"));
    }
    Ok(Value::extension(Extension::PathCheck(handle.clone(), path.as_str().into())))
}

fn group<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, Value::String(group)] = args else { return mismatch() };
    let Some(handle) = authorizer(receiver) else { return mismatch() };
    Ok(Value::extension(Extension::GroupCheck(handle.clone(), group.as_str().into())))
}

fn service_account<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, Value::String(namespace), Value::String(name)] = args else { return mismatch() };
    let Some(handle) = authorizer(receiver) else { return mismatch() };
    if !object_dns_subdomain(name.as_str(), false).is_empty() {
        return Err(EvalError::failed("Invalid service account name"));
    }
    if !object_dns_label(namespace.as_str(), false).is_empty() {
        return Err(EvalError::failed("Invalid service account namespace"));
    }
    let subject =
        Subject::ServiceAccount { namespace: namespace.as_str().into(), name: name.as_str().into() };
    Ok(Value::extension(Extension::Authorizer(AuthorizerHandle { subject, ..handle.clone() })))
}

fn resource<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, Value::String(resource)] = args else { return mismatch() };
    let Some(Extension::GroupCheck(handle, group)) = inner(receiver) else { return mismatch() };
    if resource.as_str().trim().is_empty() {
        return Err(EvalError::failed("resource must not be empty"));
    }
    let check = ResourceCheck {
        group: group.clone(),
        resource: resource.as_str().into(),
        ..ResourceCheck::default()
    };
    Ok(Value::extension(Extension::ResourceCheck(handle.clone(), check)))
}

fn with_field<'d>(args: &[Value<'d>], set: fn(&mut ResourceCheck, Arc<str>)) -> Flow<'d> {
    let [receiver, Value::String(text)] = args else { return mismatch() };
    let Some(Extension::ResourceCheck(handle, check)) = inner(receiver) else { return mismatch() };
    let mut check = check.clone();
    set(&mut check, text.as_str().into());
    Ok(Value::extension(Extension::ResourceCheck(handle.clone(), check)))
}

fn subresource<'d>(args: &[Value<'d>]) -> Flow<'d> {
    with_field(args, |check, text| check.subresource = text)
}

fn namespace<'d>(args: &[Value<'d>]) -> Flow<'d> {
    with_field(args, |check, text| check.namespace = text)
}

fn name<'d>(args: &[Value<'d>]) -> Flow<'d> {
    with_field(args, |check, text| check.name = text)
}

fn field_selector<'d>(args: &[Value<'d>]) -> Flow<'d> {
    with_field(args, |check, text| check.field_selector = text)
}

fn label_selector<'d>(args: &[Value<'d>]) -> Flow<'d> {
    with_field(args, |check, text| check.label_selector = text)
}

fn check<'d>(args: &[Value<'d>]) -> Flow<'d> {
    let [receiver, Value::String(verb)] = args else { return mismatch() };
    let (handle, check) = match inner(receiver) {
        Some(Extension::PathCheck(handle, path)) => (handle, Check::Path(path)),
        Some(Extension::ResourceCheck(handle, check)) => (handle, Check::Resource(check)),
        _ => return mismatch(),
    };
    let decision = handle.authorizer.authorize(&handle.subject, check, verb.as_str());
    Ok(Value::extension(Extension::Decision(decision)))
}

fn of_decision<'d>(args: &[Value<'d>], read: fn(&Decision) -> Value<'d>) -> Flow<'d> {
    match args {
        [value] => match inner(value) {
            Some(Extension::Decision(decision)) => Ok(read(decision)),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}

fn errored<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_decision(args, |decision| Value::Bool(decision.error.is_some()))
}

fn error<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_decision(args, |decision| Value::string(decision.error.as_deref().unwrap_or_default()))
}

fn allowed<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_decision(args, |decision| Value::Bool(decision.allowed))
}

fn reason<'d>(args: &[Value<'d>]) -> Flow<'d> {
    of_decision(args, |decision| Value::string(&*decision.reason))
}

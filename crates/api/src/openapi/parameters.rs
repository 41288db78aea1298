//! Query and path parameters of operations.

use serde_json::{Value, json};

use super::descriptions::Descriptions;

/// A parameter: its name, the type of its value, and the type with a field of that name, which has the description.
pub(super) struct Parameter(&'static str, &'static str, &'static str);

const LIST_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListOptions";
const CREATE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.CreateOptions";
const PATCH_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.PatchOptions";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const LOG_OPTIONS: &str = "io.k8s.api.core.v1.PodLogOptions";
const ATTACH_OPTIONS: &str = "io.k8s.api.core.v1.PodAttachOptions";
const EXEC_OPTIONS: &str = "io.k8s.api.core.v1.PodExecOptions";
const PORT_FORWARD_OPTIONS: &str = "io.k8s.api.core.v1.PodPortForwardOptions";
const POD_PROXY_OPTIONS: &str = "io.k8s.api.core.v1.PodProxyOptions";
const SERVICE_PROXY_OPTIONS: &str = "io.k8s.api.core.v1.ServiceProxyOptions";
const NODE_PROXY_OPTIONS: &str = "io.k8s.api.core.v1.NodeProxyOptions";

const BOOKMARKS: Parameter = Parameter("allowWatchBookmarks", "boolean", LIST_OPTIONS);
const CONTINUE: Parameter = Parameter("continue", "string", LIST_OPTIONS);
const FIELD_SELECTOR: Parameter = Parameter("fieldSelector", "string", LIST_OPTIONS);
const LABEL_SELECTOR: Parameter = Parameter("labelSelector", "string", LIST_OPTIONS);
const LIMIT: Parameter = Parameter("limit", "integer", LIST_OPTIONS);
const RESOURCE_VERSION: Parameter = Parameter("resourceVersion", "string", LIST_OPTIONS);
const RESOURCE_VERSION_MATCH: Parameter = Parameter("resourceVersionMatch", "string", LIST_OPTIONS);
const SEND_INITIAL_EVENTS: Parameter = Parameter("sendInitialEvents", "boolean", LIST_OPTIONS);
const SHARD_SELECTOR: Parameter = Parameter("shardSelector", "string", LIST_OPTIONS);
const TIMEOUT_SECONDS: Parameter = Parameter("timeoutSeconds", "integer", LIST_OPTIONS);
const WATCH: Parameter = Parameter("watch", "boolean", LIST_OPTIONS);
const DELETE_DRY_RUN: Parameter = Parameter("dryRun", "string", DELETE_OPTIONS);
const GRACE_PERIOD: Parameter = Parameter("gracePeriodSeconds", "integer", DELETE_OPTIONS);
const ORPHAN: Parameter = Parameter("orphanDependents", "boolean", DELETE_OPTIONS);
const PROPAGATION: Parameter = Parameter("propagationPolicy", "string", DELETE_OPTIONS);
const UNSAFE_DELETE: Parameter =
    Parameter("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", DELETE_OPTIONS);

pub(super) const COMMON: &[Parameter] = &[Parameter("pretty", "string", "pretty")];
pub(super) const CREATE: &[Parameter] = &[
    Parameter("dryRun", "string", CREATE_OPTIONS),
    Parameter("fieldManager", "string", CREATE_OPTIONS),
    Parameter("fieldValidation", "string", CREATE_OPTIONS),
];
pub(super) const UPDATE: &[Parameter] = CREATE;
/// Parameters for reading an object of a custom kind, besides the common ones.
pub(super) const GET_UNTYPED: &[Parameter] = &[RESOURCE_VERSION];
pub(super) const PATCH: &[Parameter] = &[
    Parameter("dryRun", "string", PATCH_OPTIONS),
    Parameter("fieldManager", "string", PATCH_OPTIONS),
    Parameter("fieldValidation", "string", PATCH_OPTIONS),
    Parameter("force", "boolean", PATCH_OPTIONS),
];
pub(super) const DELETE: &[Parameter] = &[DELETE_DRY_RUN, GRACE_PERIOD, UNSAFE_DELETE, ORPHAN, PROPAGATION];
pub(super) const LIST: &[Parameter] = &[
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
    WATCH,
];
pub(super) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    DELETE_DRY_RUN,
    FIELD_SELECTOR,
    GRACE_PERIOD,
    UNSAFE_DELETE,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
];
pub(super) const LOG: &[Parameter] = &[
    Parameter("container", "string", LOG_OPTIONS),
    Parameter("follow", "boolean", LOG_OPTIONS),
    Parameter("insecureSkipTLSVerifyBackend", "boolean", LOG_OPTIONS),
    Parameter("limitBytes", "integer", LOG_OPTIONS),
    Parameter("previous", "boolean", LOG_OPTIONS),
    Parameter("sinceSeconds", "integer", LOG_OPTIONS),
    Parameter("stream", "string", LOG_OPTIONS),
    Parameter("tailLines", "integer", LOG_OPTIONS),
    Parameter("timestamps", "boolean", LOG_OPTIONS),
];
const ATTACH: &[Parameter] = &[
    Parameter("container", "string", ATTACH_OPTIONS),
    Parameter("stderr", "boolean", ATTACH_OPTIONS),
    Parameter("stdin", "boolean", ATTACH_OPTIONS),
    Parameter("stdout", "boolean", ATTACH_OPTIONS),
    Parameter("tty", "boolean", ATTACH_OPTIONS),
];
const EXEC: &[Parameter] = &[
    Parameter("command", "string", EXEC_OPTIONS),
    Parameter("container", "string", EXEC_OPTIONS),
    Parameter("stderr", "boolean", EXEC_OPTIONS),
    Parameter("stdin", "boolean", EXEC_OPTIONS),
    Parameter("stdout", "boolean", EXEC_OPTIONS),
    Parameter("tty", "boolean", EXEC_OPTIONS),
];
const PORT_FORWARD: &[Parameter] = &[Parameter("ports", "integer", PORT_FORWARD_OPTIONS)];
const POD_PROXY: &[Parameter] = &[Parameter("path", "string", POD_PROXY_OPTIONS)];
const SERVICE_PROXY: &[Parameter] = &[Parameter("path", "string", SERVICE_PROXY_OPTIONS)];
const NODE_PROXY: &[Parameter] = &[Parameter("path", "string", NODE_PROXY_OPTIONS)];

/// The parameters of a connect subresource, by the kind of its options.
pub(super) fn connect(kind: &str) -> &'static [Parameter] {
    match kind {
        "PodAttachOptions" => ATTACH,
        "PodExecOptions" => EXEC,
        "PodPortForwardOptions" => PORT_FORWARD,
        "ServiceProxyOptions" => SERVICE_PROXY,
        "NodeProxyOptions" => NODE_PROXY,
        _ => POD_PROXY,
    }
}

/// Query parameters.
pub(super) fn query(parameters: &[Parameter], descriptions: &Descriptions) -> Vec<Value> {
    let one = |Parameter(name, kind, options): &Parameter| {
        let schema = json!({ "type": kind, "uniqueItems": true });
        let description = descriptions.of_field(options, name).unwrap_or_default();
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    parameters.iter().map(one).collect()
}

/// Path parameters.
pub(super) fn of_path(path: &str, kind: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let one = |name: &str| {
        let description = match name {
            "namespace" => "object name and auth scope, such as for teams and projects".to_owned(),
            "path" => "path to the resource".to_owned(),
            _ => format!("name of the {kind}"),
        };
        let schema = json!({ "type": "string", "uniqueItems": true });
        json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
    };
    names.map(one).collect()
}

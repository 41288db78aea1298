//! The query and path parameters of requests.

use serde_json::{Value, json};

/// A parameter: its name, the type of its value, what it does.
pub(super) struct Parameter(&'static str, &'static str, &'static str);

const DRY_RUN: Parameter =
    Parameter("dryRun", "string", "\"All\" processes the request in full and changes nothing.");
const FIELD_MANAGER: Parameter = Parameter(
    "fieldManager",
    "string",
    "Who makes the change, for the ownership of fields; at most 128 characters.",
);
const FIELD_VALIDATION: Parameter = Parameter(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields: \"Ignore\", \"Warn\" or \"Strict\".",
);
const FORCE: Parameter = Parameter("force", "boolean", "Whether apply takes over fields that others own.");
const CONTINUE: Parameter = Parameter("continue", "string", "The token of the page before this one.");
const FIELD_SELECTOR: Parameter = Parameter("fieldSelector", "string", "Only objects whose fields match.");
const LABEL_SELECTOR: Parameter = Parameter("labelSelector", "string", "Only objects whose labels match.");
const LIMIT: Parameter = Parameter("limit", "integer", "How many objects a page has at most.");
const RESOURCE_VERSION: Parameter =
    Parameter("resourceVersion", "string", "The version the answer is made from.");
const RESOURCE_VERSION_MATCH: Parameter = Parameter(
    "resourceVersionMatch",
    "string",
    "How resourceVersion is meant: \"Exact\" or \"NotOlderThan\".",
);
const SEND_INITIAL_EVENTS: Parameter =
    Parameter("sendInitialEvents", "boolean", "Whether a watch begins with the objects there are.");
const SHARD_SELECTOR: Parameter = Parameter(
    "shardSelector",
    "string",
    "Only objects whose hash is in a range; an early feature that servers may leave out.",
);
const TIMEOUT_SECONDS: Parameter = Parameter("timeoutSeconds", "integer", "How long the request may take.");
const BOOKMARKS: Parameter =
    Parameter("allowWatchBookmarks", "boolean", "Whether a watch may have bookmarks in it.");
const WATCH: Parameter = Parameter("watch", "boolean", "Whether changes are sent as they happen.");
const GRACE_PERIOD: Parameter =
    Parameter("gracePeriodSeconds", "integer", "How long the object has to end by itself.");
const ORPHAN: Parameter =
    Parameter("orphanDependents", "boolean", "Deprecated; use propagationPolicy. Whether dependents stay.");
const PROPAGATION: Parameter = Parameter(
    "propagationPolicy",
    "string",
    "What happens to dependents: \"Orphan\", \"Background\" or \"Foreground\".",
);
const UNSAFE_DELETE: Parameter = Parameter(
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Whether an object that cannot be read is deleted all the same, past finalizers and preconditions.",
);
const PRETTY: Parameter = Parameter("pretty", "string", "\"true\" indents the answer.");

pub(super) const CREATE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(super) const UPDATE: &[Parameter] = CREATE;
/// What reading an object of a custom kind takes beyond what every request does.
pub(super) const GET_UNTYPED: &[Parameter] = &[RESOURCE_VERSION];
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
pub(super) const DELETE: &[Parameter] = &[DRY_RUN, GRACE_PERIOD, UNSAFE_DELETE, ORPHAN, PROPAGATION];
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
    DRY_RUN,
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
const CONTAINER: Parameter =
    Parameter("container", "string", "Which container; the only one if there is one.");
const STDERR: Parameter = Parameter("stderr", "boolean", "Whether the error output is sent.");
const STDIN: Parameter = Parameter("stdin", "boolean", "Whether the input is taken.");
const STDOUT: Parameter = Parameter("stdout", "boolean", "Whether the output is sent.");
const TTY: Parameter = Parameter("tty", "boolean", "Whether the process has a terminal.");

const ATTACH: &[Parameter] = &[CONTAINER, STDERR, STDIN, STDOUT, TTY];
const EXEC: &[Parameter] = &[
    Parameter("command", "string", "The program and its arguments."),
    CONTAINER,
    STDERR,
    STDIN,
    STDOUT,
    TTY,
];
const PORT_FORWARD: &[Parameter] = &[Parameter("ports", "integer", "The ports to forward.")];
const PROXY: &[Parameter] = &[Parameter("path", "string", "The path that is asked for behind the proxy.")];

pub(super) const LOG: &[Parameter] = &[
    CONTAINER,
    Parameter("follow", "boolean", "Whether lines are sent as they are written."),
    Parameter(
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Whether the certificate of the node is not checked.",
    ),
    Parameter("limitBytes", "integer", "How many bytes are sent at most."),
    Parameter("previous", "boolean", "Whether it is the log of the container before this one."),
    Parameter("sinceSeconds", "integer", "Only lines that are not older."),
    Parameter("stream", "string", "Only lines of one output: \"All\", \"Stdout\" or \"Stderr\"."),
    Parameter("tailLines", "integer", "Only so many of the last lines."),
    Parameter("timestamps", "boolean", "Whether lines begin with their time."),
];

/// What can be asked of a subresource that hands requests on.
pub(super) fn connect(subresource: &str) -> &'static [Parameter] {
    match subresource {
        "attach" => ATTACH,
        "exec" => EXEC,
        "portforward" => PORT_FORWARD,
        _ => PROXY,
    }
}

pub(super) const COMMON: &[Parameter] = &[PRETTY];

/// Parameters of the query.
pub(super) fn query(parameters: &[Parameter]) -> Vec<Value> {
    let one = |Parameter(name, kind, description): &Parameter| {
        let schema = json!({ "type": kind, "uniqueItems": true });
        json!({ "name": name, "in": "query", "description": description, "schema": schema })
    };
    parameters.iter().map(one).collect()
}

/// The parameters that are parts of a path.
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

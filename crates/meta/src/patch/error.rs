//! Errors of decoding and applying patches.
//!
//! Messages and HTTP status are those of kube-apiserver, because users see them through kubectl. So
//! some client errors are answered as server errors.

use serde_json::Value;

use super::describe::{as_string_verb, json_name, quote, quote_list, type_name};
use super::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_JSON_PATCH_OPERATIONS, MAX_SHIFTED_ITEMS};
use crate::budget::BudgetError;

/// Go's output for the type of a missing value with the `%s` verb.
const NO_TYPE: &str = "%!s(<nil>)";

/// The HTTP status that an error maps to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The body is not a valid patch: 400 `BadRequest`.
    BadRequest,
    /// The patch cannot be applied to this object: 422, without a reason.
    Unprocessable,
    /// The patch exceeds a limit: 413 `RequestEntityTooLarge`.
    TooLarge,
    /// kube-apiserver does not classify the error and returns 500 without a reason, although it is
    /// the client's.
    Unclassified,
}

/// Reason why a patch cannot be decoded, applied or created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body does not have the format of this patch type.
    #[error("{0}")]
    Malformed(String),
    /// A merge patch that is neither an object nor a list.
    #[error("Invalid JSON Patch")]
    InvalidMergePatch,
    /// A document to compare or merge is not an object.
    #[error("invalid JSON document")]
    InvalidDocument,
    /// The patch or the object is nested too deeply.
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    /// A JSON patch with too many operations.
    #[error(
        "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {operations}"
    )]
    TooManyOperations {
        /// The number of operations.
        operations: usize,
    },
    /// An operation of a JSON patch failed, and with it the whole patch.
    #[error("{error}")]
    OperationFailed {
        /// Index of the operation.
        index: usize,
        /// The reason.
        error: OperationError,
    },
    /// The kind has no schema for strategic merge patches.
    #[error("strategic merge patch format is not supported")]
    UnsupportedKind,
    /// `$deleteFromPrimitiveList` without a field name.
    #[error("invalid patch format of primitive list")]
    InvalidDeletionList,
    /// `$retainKeys` is not a list of names, or lacks a field that the patch sets.
    #[error("invalid patch format of retainKeys")]
    InvalidRetainKeys,
    /// `$setElementOrder` without a field name, or two patches with different orders.
    #[error("invalid patch format of setElementOrder list")]
    InvalidElementOrder,
    /// Items of a merged list are lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An item of a merged list lacks the merge key.
    #[error("map: {item} does not contain declared merge key: {merge_key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The merge key.
        merge_key: String,
    },
    /// The schema has no merge key for a merged list of objects.
    #[error("cannot merge lists without merge key for struct")]
    NoMergeKeyDeclared,
    /// A value has the wrong type.
    #[error("expected a {expected}, but received a {actual}")]
    WrongType {
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        actual: &'static str,
    },
    /// `$patch` with an unknown directive.
    #[error("unknown patch type: {directive} in map: {object}")]
    UnknownDirective {
        /// The directive.
        directive: String,
        /// The object that contains it.
        object: String,
    },
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    /// `$setElementOrder` lacks items of the list, or has them in another order.
    #[error("The order in patch list:\n{items}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The items in the patch.
        items: String,
        /// The requested order.
        order: String,
    },
    /// Lists to be merged have items of different types.
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    /// There are no items to order.
    #[error("no elements in any of the given slices")]
    NoItems,
    /// An item of `$setElementOrder` for objects is not an object.
    #[error("value for key {index} is not a map")]
    OrderItemNotAnObject {
        /// Index of the item.
        index: usize,
    },
    /// A field to merge is not in the schema.
    #[error("unable to find api field in struct {type_name} for the json field {field:?}")]
    UnknownField {
        /// The type that lacks the field.
        type_name: &'static str,
        /// The name of the field.
        field: String,
    },
    /// A field to merge is in a value that has no fields.
    #[error("merging an object in json but data type is not struct, instead is: {actual}")]
    NotAnObject {
        /// The type of the value.
        actual: &'static str,
    },
    /// A list to merge is not a list in the schema. kube-apiserver's message names the type of the
    /// parent instead of that of the field.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    /// A list of lists cannot be merged.
    #[error("unexpected slice of slice")]
    NestedList,
    /// Two patches to be combined have different `$retainKeys`.
    #[error("{left} and {right} are not deep equal: this may happen when calculating the 3-way diff patch")]
    RetainKeysDiffer {
        /// The keys of the first patch.
        left: String,
        /// The keys of the second patch.
        right: String,
    },
    /// The patch conflicts with other changes to the object.
    #[error("patch:\n{patch}\nconflicts with changes made from original to current:\n{changes}\n")]
    Conflict {
        /// The patch.
        patch: String,
        /// The other changes.
        changes: String,
    },
}

impl PatchError {
    /// Returns the HTTP status that the error maps to.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Malformed(_)
            | Self::InvalidMergePatch
            | Self::InvalidDocument
            | Self::TooDeep
            | Self::UnsupportedKind
            | Self::InvalidDeletionList
            | Self::InvalidRetainKeys
            | Self::InvalidElementOrder => ErrorClass::BadRequest,
            Self::OperationFailed {
                error: OperationError::TooLarge(_) | OperationError::TooMuchWork,
                ..
            } => ErrorClass::TooLarge,
            Self::OperationFailed { .. } | Self::ListOfLists => ErrorClass::Unprocessable,
            Self::TooManyOperations { .. } => ErrorClass::TooLarge,
            Self::NoMergeKey { .. }
            | Self::NoMergeKeyDeclared
            | Self::WrongType { .. }
            | Self::UnknownDirective { .. }
            | Self::MergeDirectiveInList
            | Self::OrderMismatch { .. }
            | Self::MixedItems(_)
            | Self::NoItems
            | Self::UnknownField { .. }
            | Self::NotAnObject { .. }
            | Self::NotAList
            | Self::OrderItemNotAnObject { .. }
            | Self::NestedList
            | Self::RetainKeysDiffer { .. }
            | Self::Conflict { .. } => ErrorClass::Unclassified,
        }
    }

    /// The body, or a part of it, cannot be decoded into the Go type.
    pub(super) fn cannot_unmarshal(found: &Value, into: &str) -> Self {
        Self::Malformed(format!("json: cannot unmarshal {} into Go {into}", json_name(found)))
    }

    /// A value that must be an object is not one.
    pub fn not_a_map(found: &Value) -> Self {
        Self::cannot_unmarshal(found, "value of type map[string]interface {}")
    }

    pub(super) fn no_merge_key(item: &Value, merge_key: &str) -> Self {
        Self::NoMergeKey { item: quote(item), merge_key: merge_key.to_owned() }
    }

    pub(super) fn wrong_type(expected: &Value, actual: &Value) -> Self {
        let actual = if actual.is_null() { NO_TYPE } else { type_name(actual) };
        Self::WrongType { expected: type_name(expected), actual }
    }

    pub(super) fn unknown_directive(directive: &Value, object: &Value) -> Self {
        Self::UnknownDirective { directive: as_string_verb(directive), object: quote(object) }
    }

    pub(super) fn order_mismatch(items: &[Value], order: &[Value]) -> Self {
        Self::OrderMismatch { items: quote_list(items), order: quote_list(order) }
    }
}

/// Reason why an operation of a JSON patch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// `op` is not a known operation.
    #[error("Unexpected kind: {0}")]
    UnknownKind(String),
    /// `path` or `from` is absent, or not a string.
    #[error("{operation} operation failed to decode {field}: {reason}")]
    UnreadablePath {
        /// The operation.
        operation: &'static str,
        /// `path` or `from`.
        field: &'static str,
        /// The reason.
        reason: String,
    },
    /// The path does not exist.
    #[error("{operation} operation does not apply: {missing}: {path}: missing value")]
    MissingPath {
        /// The operation.
        operation: &'static str,
        /// The missing element, in the operation's wording.
        missing: &'static str,
        /// The path.
        path: String,
    },
    /// The last element of the path is invalid.
    #[error("error in {operation} for {field}: '{path}': {error}")]
    InvalidPointer {
        /// The operation.
        operation: &'static str,
        /// `path` or `from`.
        field: &'static str,
        /// The path.
        path: String,
        /// The reason.
        error: PointerError,
    },
    /// The target of a copy is invalid.
    #[error("error while adding value during copy: {0}")]
    InvalidCopyTarget(PointerError),
    /// The whole document cannot be replaced by a scalar.
    #[error("replace operation value must be object or array")]
    ScalarDocument,
    /// A `test` operation failed.
    #[error("testing value {path} failed: test failed")]
    TestFailed {
        /// The path.
        path: String,
    },
    /// The copies of a patch exceed the size limit.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {bytes}, exceeding the limit {MAX_COPY_BYTES}"
    )]
    CopyTooLarge {
        /// Accumulated size of the copies, including this one.
        bytes: usize,
    },
    /// The document would be nested too deeply.
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    /// Added and copied values exceed the memory limit.
    #[error("{0}")]
    TooLarge(#[from] BudgetError),
    /// The operations shift too many items of long lists.
    #[error("the operations of the JSON patch move more than {MAX_SHIFTED_ITEMS} items of lists")]
    TooMuchWork,
}

/// Reason why the last element of a path does not resolve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// The object has no such field.
    #[error("Unable to remove nonexistent key: {0}: missing value")]
    MissingKey(String),
    /// The index is out of bounds.
    #[error("Unable to access invalid index: {0}: invalid index referenced")]
    InvalidIndex(i64),
    /// The list index is not a number.
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotANumber(String),
    /// The list index of an insertion is not a number.
    #[error("value was not a proper array index: '{0}': strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotAnIndex(String),
}

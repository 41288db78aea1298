//! Why a patch cannot be read or applied.
//!
//! Messages are kube-apiserver's, for they reach people through kubectl. So is the class of
//! each: some faults of the client are answered there as if they were the server's.

use serde_json::Value;

use super::describe::{as_string_verb, json_name, quote, quote_list, type_name};
use super::limits::{MAX_COPY_BYTES, MAX_DEPTH, MAX_JSON_PATCH_OPERATIONS, MAX_SHIFTED_ITEMS};
use crate::budget::BudgetError;

/// What Go prints for the type of nothing where it expects a text.
const NO_TYPE: &str = "%!s(<nil>)";

/// What kind of answer an error calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The body is no patch: 400 `BadRequest`.
    BadRequest,
    /// The patch cannot be applied to this object: 422, without a reason.
    Unprocessable,
    /// The patch asks for too much: 413 `RequestEntityTooLarge`.
    TooLarge,
    /// kube-apiserver gives no class to it and answers 500 without a reason, although the
    /// client is at fault.
    Unclassified,
}

/// Why a patch cannot be read, applied or made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The body is not of the form that this kind of patch has.
    #[error("{0}")]
    Malformed(String),
    /// A merge patch that is neither an object nor a list.
    #[error("Invalid JSON Patch")]
    InvalidMergePatch,
    /// What is to be compared or merged is not an object.
    #[error("invalid JSON document")]
    InvalidDocument,
    /// The patch, or the object, is nested too deep.
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    /// A JSON patch with too many operations.
    #[error(
        "The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, got {operations}"
    )]
    TooManyOperations {
        /// How many it has.
        operations: usize,
    },
    /// An operation of a JSON patch failed, and so did the patch.
    #[error("{error}")]
    OperationFailed {
        /// Which of the operations, from 0.
        index: usize,
        /// Why.
        error: OperationError,
    },
    /// A kind without a schema that says how to merge it.
    #[error("strategic merge patch format is not supported")]
    UnsupportedKind,
    /// `$deleteFromPrimitiveList` without the name of a field.
    #[error("invalid patch format of primitive list")]
    InvalidDeletionList,
    /// `$retainKeys` that is no list of names, or lacks one that the patch sets.
    #[error("invalid patch format of retainKeys")]
    InvalidRetainKeys,
    /// `$setElementOrder` without the name of a field, or not the same in two patches.
    #[error("invalid patch format of setElementOrder list")]
    InvalidElementOrder,
    /// Items of a merged list are lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// An item of a merged list cannot be told apart from others.
    #[error("map: {item} does not contain declared merge key: {merge_key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The key that it lacks.
        merge_key: String,
    },
    /// The schema names no key for a list of objects that is to be merged.
    #[error("cannot merge lists without merge key for struct")]
    NoMergeKeyDeclared,
    /// Something other than what the place needs.
    #[error("expected a {expected}, but received a {actual}")]
    WrongType {
        /// What is needed.
        expected: &'static str,
        /// What is there.
        actual: &'static str,
    },
    /// `$patch` with a word that means nothing there.
    #[error("unknown patch type: {directive} in map: {object}")]
    UnknownDirective {
        /// The word.
        directive: String,
        /// Where it stands.
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
        /// The order it asks for.
        order: String,
    },
    /// Items of different types in lists that are to be merged.
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    /// Nothing to put in order.
    #[error("no elements in any of the given slices")]
    NoItems,
    /// An item of `$setElementOrder` for objects is none.
    #[error("value for key {index} is not a map")]
    OrderOfNoObject {
        /// Which one, from 0.
        index: usize,
    },
    /// A field that the schema does not know is to be merged.
    #[error("unable to find api field in struct {type_name} for the json field {field:?}")]
    UnknownField {
        /// The type that does not have it.
        type_name: &'static str,
        /// Its name.
        field: String,
    },
    /// A field of something that has no fields is to be merged.
    #[error("merging an object in json but data type is not struct, instead is: {actual}")]
    NotAnObject {
        /// What it is instead.
        actual: &'static str,
    },
    /// A list is to be merged where the schema has none. Upstream tells of what the field is in, and
    /// not what it is.
    #[error("expected slice or array type, but got: struct")]
    NotAList,
    /// A list of lists is to be merged.
    #[error("unexpected slice of slice")]
    NestedList,
    /// Two patches that are to become one keep different keys.
    #[error("{left} and {right} are not deep equal: this may happen when calculating the 3-way diff patch")]
    RetainKeysDiffer {
        /// What one keeps.
        left: String,
        /// What the other keeps.
        right: String,
    },
    /// A field was changed in one way, and is to be changed in another.
    #[error("patch:\n{patch}\nconflicts with changes made from original to current:\n{changes}\n")]
    Conflict {
        /// What is to be changed.
        patch: String,
        /// What was changed.
        changes: String,
    },
}

impl PatchError {
    /// What kind of answer it calls for.
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
            | Self::OrderOfNoObject { .. }
            | Self::NestedList
            | Self::RetainKeysDiffer { .. }
            | Self::Conflict { .. } => ErrorClass::Unclassified,
        }
    }

    /// The body, or a part of it, is not what the Go type needs.
    pub(super) fn cannot_unmarshal(found: &Value, into: &str) -> Self {
        Self::Malformed(format!("json: cannot unmarshal {} into Go {into}", json_name(found)))
    }

    /// What should be an object is something else.
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

/// Why an operation of a JSON patch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// `op` is none of the six.
    #[error("Unexpected kind: {0}")]
    UnknownKind(String),
    /// `path` or `from` is absent, or not text.
    #[error("{operation} operation failed to decode {field}: {reason}")]
    UnreadablePath {
        /// Which of the six.
        operation: &'static str,
        /// `path` or `from`.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing is where the operation looks.
    #[error("{operation} operation does not apply: {missing}: {path}: missing value")]
    MissingPath {
        /// Which of the six.
        operation: &'static str,
        /// What is missing, in the words for this operation.
        missing: &'static str,
        /// Where it looked.
        path: String,
    },
    /// The place is not there, or cannot be.
    #[error("error in {operation} for {field}: '{path}': {error}")]
    Place {
        /// Which of the six.
        operation: &'static str,
        /// `path` or `from`.
        field: &'static str,
        /// Where.
        path: String,
        /// Why.
        error: PlaceError,
    },
    /// The place where a copy is to be cannot be.
    #[error("error while adding value during copy: {0}")]
    CopyPlace(PlaceError),
    /// The whole document is to be replaced by a scalar.
    #[error("replace operation value must be object or array")]
    ScalarDocument,
    /// A test did not hold.
    #[error("testing value {path} failed: test failed")]
    TestFailed {
        /// Of what.
        path: String,
    },
    /// Too much is copied.
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {bytes}, exceeding the limit {MAX_COPY_BYTES}"
    )]
    CopyTooLarge {
        /// How much, with this copy.
        bytes: usize,
    },
    /// The document would be nested too deep.
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    /// The values that operations add and copy take too much memory.
    #[error("{0}")]
    TooLarge(#[from] BudgetError),
    /// The operations move too many items of long lists.
    #[error("the operations of the JSON patch move more than {MAX_SHIFTED_ITEMS} items of lists")]
    TooMuchWork,
}

/// Why a place in a list or an object is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The object has no such field.
    #[error("Unable to remove nonexistent key: {0}: missing value")]
    MissingKey(String),
    /// The list is shorter.
    #[error("Unable to access invalid index: {0}: invalid index referenced")]
    InvalidIndex(i64),
    /// That is no number.
    #[error("strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotANumber(String),
    /// That is no number, where something was to be put into a list.
    #[error("value was not a proper array index: '{0}': strconv.Atoi: parsing {0:?}: invalid syntax")]
    NotAnIndex(String),
}

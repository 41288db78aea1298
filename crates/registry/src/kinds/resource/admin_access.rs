//! Admin access to devices needs a namespace that is labelled for it: its pods get devices that others use
//! (`AuthorizedForAdmin` in `pkg/registry/resource/utils.go` of Kubernetes).

use serde_json::Value;

use crate::kind::NamespaceLabel;
use crate::view;

const KEY: &str = "resource.kubernetes.io/admin-access";
const VALUE: &str = "true";

/// The label for the first request with admin access, if there is one. kube-apiserver names the same field for
/// templates, and leaves out `exactly`.
pub(super) fn of_requests(requests: &[Value]) -> Option<NamespaceLabel> {
    let asks = |request: &Value| view::at(request, &["exactly", "adminAccess"]) == Some(&Value::Bool(true));
    let index = requests.iter().position(asks)?;
    Some(label(format!("spec.devices.requests[{index}].adminAccess")))
}

/// The label for a status that grants admin access for the first time.
pub(super) fn of_status(new: &Value, old: &Value) -> Option<NamespaceLabel> {
    let granted = |claim| {
        let results = view::items(claim, &["status", "allocation", "devices", "results"]);
        results.iter().position(|result| result["adminAccess"] == true)
    };
    let index = granted(new)?;
    granted(old).is_none().then(|| label(format!("status.allocation.devices.results[{index}].adminAccess")))
}

fn label(field: String) -> NamespaceLabel {
    let detail =
        format!("admin access to devices requires the `{KEY}: {VALUE}` label on the containing namespace");
    NamespaceLabel { key: KEY, value: VALUE, field, detail }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(label: Option<NamespaceLabel>) -> Option<String> {
        label.map(|label| label.field)
    }

    #[test]
    fn first_request_with_admin_access_needs_the_label() {
        let request = |access: bool| json!({"exactly": {"adminAccess": access}});
        assert_eq!(of_requests(&[request(false), json!({})]), None);
        let found = of_requests(&[request(false), request(true), request(true)]);
        assert_eq!(field(found), Some("spec.devices.requests[1].adminAccess".to_owned()));
    }

    #[test]
    fn status_needs_the_label_unless_it_granted_admin_access_before() {
        let claim = |access: bool| json!({"status": {"allocation": {"devices": {"results": [{"adminAccess": access}]}}}});
        let found = of_status(&claim(true), &claim(false));
        assert_eq!(field(found), Some("status.allocation.devices.results[0].adminAccess".to_owned()));
        assert_eq!(of_status(&claim(true), &claim(true)), None);
        assert_eq!(of_status(&claim(false), &claim(true)), None);
    }
}

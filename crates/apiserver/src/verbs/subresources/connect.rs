//! Subresources that connect to a node: `log`, `exec`, `attach`, `portforward` and `proxy`.
//!
//! Errors that do not depend on the node have the texts of kube-apiserver.

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::gvk::{GroupKind, GroupResource};
use coracle_meta::status::Status;
use coracle_registry::kinds::core::pod::choose_container;
use coracle_registry::view;
use http::{Response, StatusCode};
use serde_json::Value;

use super::super::ResourceRequest;
use super::known;
use crate::body::{ResponseBody, full};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) async fn connect(&self, part: &str) -> Result<Response<ResponseBody>, Refusal> {
        if part != "log" && self.query.dry_run() {
            return Err(Refusal::bad_request("dryRun is not supported"));
        }
        match (&*self.path.resource, part) {
            ("pods", "log") => self.log().await,
            ("pods", "exec" | "attach") => {
                let pod = self.find(&*self.kind, &self.path.name).await?;
                self.chosen_container(&pod)?;
                Err(self.no_connection(self.node_of(&pod)?).await)
            }
            ("pods", "portforward") => {
                let pod = self.find(&*self.kind, &self.path.name).await?;
                Err(self.no_connection(self.node_of(&pod)?).await)
            }
            ("pods", _) => self.proxy_to_pod().await,
            ("services", _) => self.proxy_to_service().await,
            _ => {
                let name = self.proxied_name("node")?;
                self.find(&*self.kind, name).await?;
                Err(self.no_connection(name).await)
            }
        }
    }

    async fn log(&self) -> Result<Response<ResponseBody>, Refusal> {
        let errors = self.log_option_errors()?;
        if !errors.is_empty() {
            let kind = GroupKind { group: "".into(), kind: "PodLogOptions".into() };
            return Err(Status::invalid(&kind, &self.path.name, &errors).into());
        }
        let pod = self.find(&*self.kind, &self.path.name).await?;
        let container = self.chosen_container(&pod)?;
        match view::text(&pod, &["spec", "nodeName"]) {
            // The pod is not scheduled, so it has no log yet.
            "" => {
                let mut response = Response::new(full(""));
                *response.status_mut() = StatusCode::NO_CONTENT;
                Ok(response)
            }
            name => match self.simulated_node(name).await? {
                Some(node) => self.simulated_log(&node, &pod, &container),
                None => Err(self.unreachable(name)),
            },
        }
    }

    fn log_option_errors(&self) -> Result<ErrorList, Refusal> {
        let mut errors = ErrorList::new();
        let mut check = |name: &str, least: i64, detail: &str| -> Result<(), Refusal> {
            if let Some(number) = self.query.number(name)?.filter(|number| *number < least) {
                errors.push(FieldError::invalid(&Path::root(name), number, detail));
            }
            Ok(())
        };
        check("tailLines", 0, "must be greater than or equal to 0")?;
        check("limitBytes", 1, "must be greater than 0")?;
        if self.query.text("sinceTime").is_empty() {
            check("sinceSeconds", 1, "must be greater than 0")?;
        } else if self.query.number("sinceSeconds")?.is_some() {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            // kube-apiserver names no field in this error.
            errors.push(FieldError::forbidden(&Path::root("[]"), detail));
        }
        if !self.query.text("stream").is_empty() {
            errors.push(FieldError::forbidden(&Path::root("stream"), "may not be specified"));
        }
        Ok(errors)
    }

    fn chosen_container(&self, pod: &Value) -> Result<String, Refusal> {
        let chosen = choose_container(pod, self.query.text("container"));
        chosen.map(str::to_owned).map_err(|error| Refusal::bad_request(error.to_string()))
    }

    fn node_of<'a>(&self, pod: &'a Value) -> Result<&'a str, Refusal> {
        match view::text(pod, &["spec", "nodeName"]) {
            "" => Err(Refusal::bad_request(format!("pod {} does not have a host assigned", self.path.name))),
            node => Ok(node),
        }
    }

    async fn proxy_to_pod(&self) -> Result<Response<ResponseBody>, Refusal> {
        let pod = self.find(&*self.kind, self.proxied_name("pod")?).await?;
        let address =
            view::items(&pod, &["status", "podIPs"]).first().map(|address| view::text(address, &["ip"]));
        match address.and_then(|address| address.parse::<std::net::IpAddr>().ok()) {
            Some(address) if is_elsewhere(address) => match view::text(&pod, &["spec", "nodeName"]) {
                "" => Err(self.unreachable(&address.to_string())),
                node => Err(self.no_connection(node).await),
            },
            _ => Err(Refusal::bad_request("address not allowed")),
        }
    }

    async fn proxy_to_service(&self) -> Result<Response<ResponseBody>, Refusal> {
        let name = self.proxied_name("service")?;
        let (_, _, port) = split(&self.path.name).unwrap_or_default();
        let port = match port.parse::<i64>() {
            Ok(number) => self.port_name(name, number).await?,
            Err(_) => port.to_owned(),
        };
        let services = GroupResource { group: "".into(), resource: "services".into() };
        let endpoints = self.find_existing(known("", "v1", "endpoints")?, name).await?;
        // As in kube-apiserver, even if the service exists.
        let endpoints = endpoints.ok_or_else(|| Status::not_found(&services, name))?;
        let subsets = view::items(&endpoints, &["subsets"]);
        let has_port = |subset: &&Value| {
            view::items(subset, &["ports"]).iter().any(|found| view::text(found, &["name"]) == port)
        };
        for subset in subsets.iter().filter(has_port) {
            for address in view::items(subset, &["addresses"]) {
                if self.is_address_of_pod(address).await? {
                    return Err(self.unreachable(name));
                }
            }
        }
        let service = if subsets.is_empty() { name } else { &self.path.name };
        let message = format!("no endpoints available for service {}", quoted(service));
        Err(Status::service_unavailable(message).into())
    }

    /// Returns the name of the service port with this number.
    async fn port_name(&self, service: &str, number: i64) -> Result<String, Refusal> {
        let found = self.find(&*self.kind, service).await?;
        let ports = view::items(&found, &["spec", "ports"]);
        match ports.iter().find(|port| view::integer(port, &["port"]) == Some(number)) {
            Some(port) => Ok(view::text(port, &["name"]).to_owned()),
            None => {
                let message = format!("no service port {number} found for service {}", quoted(service));
                Err(Status::service_unavailable(message).into())
            }
        }
    }

    /// Whether an address of endpoints belongs to a pod of the same namespace; the proxy connects to no other.
    async fn is_address_of_pod(&self, address: &Value) -> Result<bool, Refusal> {
        let target = |field| view::text(address, &["targetRef", field]);
        if target("name").is_empty() || target("namespace") != self.path.namespace {
            return Ok(false);
        }
        let Some(pod) = self.find_existing(known("", "v1", "pods")?, target("name")).await? else {
            return Ok(false);
        };
        let ip = view::text(address, &["ip"]);
        Ok(view::items(&pod, &["status", "podIPs"]).iter().any(|found| view::text(found, &["ip"]) == ip))
    }

    /// Returns the name of the proxied object, without scheme and port.
    fn proxied_name(&self, what: &str) -> Result<&str, Refusal> {
        let refused = || Refusal::bad_request(format!("invalid {what} request {}", quoted(&self.path.name)));
        split(&self.path.name).map(|(_, name, _)| name).ok_or_else(refused)
    }

    pub(super) fn unreachable(&self, target: &str) -> Refusal {
        let (plural, part) = (&self.kind.declaration().plural, &self.path.subresource);
        let message = format!("{plural}/{part} is not implemented: this server does not connect to {target}");
        Status::service_unavailable(message).into()
    }
}

/// Whether an address is neither loopback, link-local nor unspecified, nor multicast or broadcast.
fn is_elsewhere(address: std::net::IpAddr) -> bool {
    let link_local = match address {
        std::net::IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(link_local || address.is_loopback() || address.is_multicast() || address.is_unspecified())
}

/// Splits `name`, `name:port` or `scheme:name:port` into scheme, name and port. An empty scheme stands for plain HTTP.
fn split(id: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = id.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return None,
    };
    (matches!(scheme, "" | "http" | "https") && !name.is_empty()).then_some((scheme, name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_scheme_and_port_is_split() {
        assert_eq!(split("a"), Some(("", "a", "")));
        assert_eq!(split("a:80"), Some(("", "a", "80")));
        assert_eq!(split("https:a:"), Some(("https", "a", "")));
        assert_eq!(split("ftp:a:1"), None);
        assert_eq!(split(":80"), None);
        assert_eq!(split("a:b:c:d"), None);
    }
}

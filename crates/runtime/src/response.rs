//! Responses of the server.

use coracle_base::deep_stack;
use coracle_meta::go_json;
use kube::Client;
use serde::de::DeserializeOwned;

/// Sends a request and reads the response, which may be nested as deep as objects may be. `Client::request` stops at 128
/// levels.
pub(crate) async fn read<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let text = client.request_text(request).await?;
    let found = deep_stack::run(|| go_json::read_text(&text, |deserializer| T::deserialize(deserializer)));
    found.map_err(kube::Error::SerdeError)
}

//! Deserialization of API server responses.

use coracle_base::deep_stack;
use coracle_meta::go_json;
use kube::Client;
use serde::de::DeserializeOwned;

/// Sends a request and deserializes the response, which may be nested as deep as objects. `Client::request` stops at 128
/// levels.
pub(crate) async fn read<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let text = client.request_text(request).await?;
    let result = deep_stack::run(|| go_json::read_text(&text, |deserializer| T::deserialize(deserializer)));
    result.map_err(kube::Error::SerdeError)
}

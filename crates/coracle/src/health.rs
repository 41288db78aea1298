//! The check of the store behind `/readyz` and `/livez`.

use coracle_apiserver::{HealthChecks, Unhealthy};
use coracle_base::ErrorChain;
use coracle_store::{Error, Store};
use tokio_util::sync::CancellationToken;

/// The key the health check reads. No object has it, because the keys of objects contain a slash.
const HEALTH_KEY: &str = "health";

/// The health checks of a server on this store. Readiness fails once `stopping` is cancelled.
pub(crate) fn checks(store: &Store, stopping: &CancellationToken) -> HealthChecks {
    let mut health = HealthChecks::new(stopping.clone());
    let store = store.clone();
    health.register("store", move || {
        let store = store.clone();
        async move { check(&store).await }
    });
    health
}

/// Checks that writes are accepted, and reads a key.
///
/// `/livez` fails only where a restart helps, because supervisors restart on it: it reopens a store that
/// refuses writes since its log failed, but frees no space on a full disk. An etcd that does not answer fails
/// both probes, as it does in kube-apiserver; the store tests by itself whether it answers again.
async fn check(store: &Store) -> Result<(), Unhealthy> {
    let failed = |error: &Error| Unhealthy::Failed(ErrorChain(error).to_string());
    match store.writable() {
        Ok(()) => store.get(HEALTH_KEY).await.map(drop).map_err(|error| failed(&error)),
        Err(error @ (Error::Poisoned { .. } | Error::Unavailable(_) | Error::Closed)) => Err(failed(&error)),
        Err(error) => Err(Unhealthy::NotReady(ErrorChain(&error).to_string())),
    }
}

#[cfg(test)]
mod tests {
    use coracle_apiserver::{ApiServer, Registry, ServerInfo};
    use coracle_base::{Clock, Rng};
    use coracle_store::disk;
    use coracle_store::disk::fake::FakeDisk;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{ObjectMeta, PostParams};
    use kube::core::Status;
    use kube::{Api, Client};

    use super::*;
    use crate::in_process;

    /// A server on a disk that the test controls.
    struct Server {
        disk: FakeDisk,
        store: Store,
        client: Client,
    }

    impl Server {
        async fn start() -> Self {
            let disk = FakeDisk::new();
            let store = disk::open_on(disk.files(), disk::Options::default()).await.unwrap();
            let clock = Clock::system();
            let registry = Registry::new(store.clone(), clock.clone(), Rng::seeded(1));
            let server = ApiServer::new(checks(&store, &CancellationToken::new()), registry, clock);
            server.bootstrap(&ServerInfo::default()).await.unwrap();
            Self { disk, store, client: in_process::client(server, in_process::ADMINISTRATOR) }
        }

        async fn write(&self, name: &str) -> kube::Result<ConfigMap> {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let object = ConfigMap { metadata, ..ConfigMap::default() };
            Api::namespaced(self.client.clone(), "default").create(&PostParams::default(), &object).await
        }

        async fn refusal(&self, name: &str) -> Status {
            match self.write(name).await {
                Err(kube::Error::Api(status)) => *status,
                other => panic!("expected a refusal, got {other:?}"),
            }
        }

        /// Sends a probe. Returns true if it passed, and the response text.
        async fn probe(&self, path: &str) -> (bool, String) {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            match self.client.request_text(request).await {
                Ok(text) => (true, text),
                Err(kube::Error::Api(status)) => (false, status.message.clone()),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn full_disk_is_named_and_fails_readyz_until_there_is_space() {
        let server = Server::start().await;
        server.write("before").await.unwrap();
        server.disk.set_capacity(Some(0));
        // The preallocated space is used up first.
        let status = loop {
            match server.write(&format!("w{}", server.disk.operations())).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) => break status,
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!((status.code, &*status.reason), (503, "ServiceUnavailable"));
        assert_eq!(
            status.message,
            "the store refuses writes: no space left on the disk of the data directory"
        );
        assert_eq!(status.details.unwrap().retry_after_seconds, 1);
        let (ready, text) = server.probe("/readyz/store").await;
        assert!(!ready && text.contains("no space left"), "{text}");
        assert_eq!(server.probe("/livez").await, (true, "ok".to_owned()), "a restart would not help");

        server.disk.set_capacity(None);
        server.write("after").await.unwrap();
        assert_eq!(server.probe("/readyz").await, (true, "ok".to_owned()));
        server.store.close().await.unwrap();
    }

    #[tokio::test]
    async fn failed_sync_is_named_and_fails_livez_and_the_close() {
        let server = Server::start().await;
        server.disk.fail_syncs(true);
        for name in ["first", "second"] {
            let status = server.refusal(name).await;
            assert_eq!(status.code, 503);
            assert!(status.message.contains("the server has to be restarted"), "{}", status.message);
            let retry_after = status.details.map_or(0, |details| details.retry_after_seconds);
            assert_eq!(retry_after, 0, "the first may have been carried out");
        }
        for path in ["/readyz/store", "/livez/store"] {
            let (healthy, text) = server.probe(path).await;
            assert!(!healthy && text.contains("refuses writes"), "{path}: {text}");
        }
        assert!(matches!(server.store.close().await, Err(Error::Poisoned { .. })));
    }
}

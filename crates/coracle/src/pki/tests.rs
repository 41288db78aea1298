//! The files of the PKI: created once, kept, renewed when due, rejected when malformed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use super::*;

const DAY: Duration = Duration::from_hours(24);

/// An arbitrary time.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(super) struct Cluster {
    dir: TempDir,
    pub(super) config: Config,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let config =
            Config { advertise_address: Some([192, 0, 2, 1].into()), ..Config::new(dir.path().join("data")) };
        Self { dir, config }
    }

    fn try_prepare(&self, now: Timestamp) -> Result<Credentials, PkiError> {
        prepare(&self.config, &self.config.listen, now)
    }

    pub(super) fn prepare(&self, now: Timestamp) -> Credentials {
        self.try_prepare(now).unwrap()
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        directory(&self.config.data_dir).join(file)
    }

    /// Writes a file as the server does: for its owner only.
    pub(super) fn write(&self, file: &str, bytes: &[u8]) {
        fs::write(self.path(file), bytes).unwrap();
        fs::set_permissions(self.path(file), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let dirs = [directory(&self.config.data_dir), self.config.data_dir.clone()];
        let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap()).map(Result::unwrap);
        let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
        files
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
            .collect()
    }

    /// Asserts that files with private keys are readable by their owner only.
    pub(super) fn check_modes(&self) {
        let mut dirs = vec![self.config.data_dir.clone()];
        while let Some(dir) = dirs.pop() {
            assert_eq!(mode(&dir), 0o700, "{}", dir.display());
            for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    dirs.push(path);
                    continue;
                }
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                let secret = text.contains("PRIVATE KEY") || text.contains("client-key-data");
                let expected = if secret { 0o600 } else { 0o644 };
                assert_eq!(mode(&path), expected, "{}", path.display());
            }
        }
    }

    /// Requests a rotation and carries it out.
    pub(super) fn rotate(&self, names: &[&str], authorities: bool, now: Timestamp) -> Credentials {
        let names = names.iter().map(ToString::to_string).collect();
        request_rotation(&self.config.data_dir, &Rotation { names, authorities }).unwrap();
        self.prepare(now)
    }

    /// The names of the files that are rewritten because of `change`.
    pub(super) fn changed_by(&mut self, now: Timestamp, change: impl FnOnce(&mut Self)) -> Vec<String> {
        let before = self.files();
        change(self);
        self.prepare(now);
        let after = self.files();
        assert_eq!(before.len(), after.len(), "{:?}", after.keys());
        after
            .into_iter()
            .filter(|(name, bytes)| before.get(name) != Some(bytes))
            .map(|(name, _)| name)
            .collect()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const SERVER: [&str; 2] = ["apiserver.crt", "apiserver.key"];
const ADMIN: [&str; 3] = ["admin.crt", "admin.key", "admin.kubeconfig"];
const PROXY: [&str; 2] = ["front-proxy-client.crt", "front-proxy-client.key"];

#[test]
fn key_files_are_private() {
    let cluster = Cluster::new();
    let credentials = cluster.prepare(NOW);
    let names: Vec<_> = cluster.files().into_keys().collect();
    let authorities = ["ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"];
    assert_eq!(names, [&ADMIN[..], &SERVER, &authorities, &PROXY, &["sa.key"]].concat());
    cluster.check_modes();
    assert_eq!(mode(&credentials.kubeconfig), 0o600);
    assert_eq!(credentials.urls, ["https://127.0.0.1:6443"]);
}

#[test]
fn prepare_without_need_changes_no_file() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    assert_eq!(cluster.changed_by(NOW, |_| ()), [""; 0]);
    assert_eq!(cluster.changed_by(NOW + DAY * 200, |_| ()), [""; 0]);
}

/// The private key in a kubeconfig.
fn client_key(kubeconfig: &str) -> String {
    let encoded = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

#[test]
fn private_keys_are_written_in_sec1() {
    let cluster = Cluster::new();
    let credentials = cluster.prepare(NOW);
    let mut keys: Vec<_> = cluster.files().into_iter().filter(|(name, _)| name.ends_with(".key")).collect();
    assert_eq!(keys.len(), 6);
    let admin = fs::read_to_string(&credentials.kubeconfig).unwrap();
    keys.push(("admin.kubeconfig".to_owned(), client_key(&admin).into_bytes()));
    let request = KubeconfigRequest {
        user: "jane".to_owned(),
        groups: Vec::new(),
        life: DAY,
        server: None,
        scope: CredentialScope::DefaultCluster,
    };
    let jane = create_kubeconfig(&cluster.config.data_dir, &request, NOW).unwrap();
    keys.push(("jane".to_owned(), client_key(&jane).into_bytes()));
    for (name, key) in keys {
        assert!(key.starts_with(b"-----BEGIN EC PRIVATE KEY-----\n"), "{name}");
    }
}

#[test]
fn directory_with_pkcs8_keys_is_used_and_its_kubeconfig_gets_sec1() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    for (name, key) in cluster.files() {
        if name.ends_with(".key") {
            let pair = private_key::parse(str::from_utf8(&key).unwrap()).unwrap();
            cluster.write(&name, pair.serialize_pem().as_bytes());
        }
    }
    let path = admin_kubeconfig(&cluster.config.data_dir);
    let kubeconfig = fs::read_to_string(&path).unwrap();
    let old = fs::read_to_string(cluster.path("admin.key")).unwrap();
    let encoded = |key: &str| STANDARD.encode(key);
    fs::write(&path, kubeconfig.replace(&encoded(&client_key(&kubeconfig)), &encoded(&old))).unwrap();
    assert_eq!(cluster.changed_by(NOW, |_| ()), ["admin.kubeconfig"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), kubeconfig);
}

#[test]
fn admin_certificate_without_scope_is_issued_anew() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    let scope = |cluster: &Cluster| {
        let pem = fs::read_to_string(cluster.path("admin.crt")).unwrap();
        CredentialScope::of_certificate_der(&authority::parse_pem(&pem).unwrap()[0]).unwrap()
    };
    assert_eq!(scope(&cluster), CredentialScope::AllClusters);
    // As versions without scopes have left it.
    let changed = cluster.changed_by(NOW, |cluster| {
        let dir = directory(&cluster.config.data_dir);
        let mut batch = Batch::default();
        let authorities = Authorities::load_or_create(&dir, CLUSTER, false, NOW, &mut batch).unwrap();
        let masters = [MASTERS.to_owned()];
        let profile = Profile::unscoped_user(leaf::ADMIN, ADMINISTRATOR, &masters);
        let leaf = profile.issue(&authorities.current, NOW, DAY * 365, &dir).unwrap();
        fs::write(cluster.path("admin.crt"), &leaf.certificate).unwrap();
        fs::write(cluster.path("admin.key"), leaf.key.expose()).unwrap();
        assert_eq!(scope(cluster), CredentialScope::DefaultCluster);
    });
    assert_eq!(changed, ADMIN);
    assert_eq!(scope(&cluster), CredentialScope::AllClusters);
    assert_eq!(cluster.changed_by(NOW, |_| ()), [""; 0], "it is issued once");
}

#[test]
fn new_server_name_issues_a_new_certificate() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    let changed =
        cluster.changed_by(NOW, |cluster| cluster.config.tls_sans = vec!["a.example".parse().unwrap()]);
    assert_eq!(changed, SERVER);
    let other = [192, 0, 2, 2].into();
    assert_eq!(cluster.changed_by(NOW, |cluster| cluster.config.advertise_address = Some(other)), SERVER);
    // The advertised address replaces the unspecified one; the names stay the same.
    let anywhere = vec!["0.0.0.0:6443".parse().unwrap()];
    assert_eq!(cluster.changed_by(NOW, |cluster| cluster.config.listen = anywhere), ["admin.kubeconfig"]);
    assert_eq!(cluster.prepare(NOW).urls, ["https://192.0.2.2:6443"]);
}

#[test]
fn certificates_are_renewed_before_they_expire() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    assert!(cluster.prepare(NOW).due > NOW + DAY * 243 && cluster.prepare(NOW).due < NOW + DAY * 293);
    let due = NOW + DAY * 293;
    assert_eq!(cluster.changed_by(due, |_| ()), [&ADMIN[..], &SERVER, &PROXY].concat());
    assert_eq!(cluster.changed_by(due, |_| ()), [""; 0]);
}

#[test]
fn expired_authority_is_not_renewed_automatically() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    let late = NOW + DAY * 3651;
    let error = cluster.try_prepare(late).unwrap_err();
    assert!(matches!(&error, PkiError::Expired { path } if *path == cluster.path("ca.crt")), "{error}");
    let changed = cluster.changed_by(late, |cluster| {
        fs::remove_file(cluster.path("ca.crt")).unwrap();
        fs::remove_file(cluster.path("front-proxy-ca.crt")).unwrap();
    });
    assert_eq!(changed, [&ADMIN[..], &SERVER, &["ca.crt", "front-proxy-ca.crt"], &PROXY].concat());
}

#[test]
fn missing_files_of_an_interrupted_start_are_restored() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    for (missing, expected) in [
        ("apiserver.crt", &SERVER[..]),
        ("apiserver.key", &SERVER),
        ("admin.crt", &ADMIN),
        ("admin.key", &ADMIN),
        ("ca.crt", &["admin.kubeconfig", "ca.crt"]),
    ] {
        let changed =
            cluster.changed_by(NOW + DAY, |cluster| fs::remove_file(cluster.path(missing)).unwrap());
        assert_eq!(changed, expected, "{missing}");
    }
    // One half is missing, or belongs to another certificate.
    let foreign = Cluster::new();
    foreign.prepare(NOW);
    let changed = cluster.changed_by(NOW + DAY, |cluster| {
        fs::copy(foreign.path("admin.key"), cluster.path("admin.key")).unwrap();
    });
    assert_eq!(changed, ADMIN);
    fs::write(cluster.path("apiserver.key.tmp"), "cut sho").unwrap();
    fs::remove_file(cluster.path("apiserver.key")).unwrap();
    cluster.prepare(NOW);
    assert!(!cluster.path("apiserver.key.tmp").exists());
}

#[test]
fn new_authority_reissues_all_certificates() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    let changed = cluster.changed_by(NOW, |cluster| {
        fs::remove_file(cluster.path("ca.crt")).unwrap();
        fs::remove_file(cluster.path("ca.key")).unwrap();
    });
    assert_eq!(changed, [&ADMIN[..], &SERVER, &["ca.crt", "ca.key"]].concat());
}

#[test]
fn authority_with_missing_or_foreign_key_is_rejected() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    cluster.prepare(NOW);
    other.prepare(NOW);
    fs::copy(other.path("ca.key"), cluster.path("ca.key")).unwrap();
    let error = cluster.try_prepare(NOW).unwrap_err();
    assert!(matches!(error, PkiError::Mismatch { .. }), "{error}");
    fs::remove_file(cluster.path("ca.key")).unwrap();
    let error = cluster.try_prepare(NOW).unwrap_err();
    assert!(matches!(error, PkiError::KeyMissing { .. }), "{error}");
    assert!(error.to_string().starts_with(&cluster.path("ca.key").display().to_string()), "{error}");
}

#[test]
fn malformed_file_is_named_and_its_contents_are_not() {
    for file in ["ca.crt", "ca.key", "admin.crt", "admin.key", "front-proxy-ca.crt", "apiserver.key"] {
        let cluster = Cluster::new();
        cluster.prepare(NOW);
        let path = cluster.path(file);
        let text = fs::read_to_string(&path).unwrap();
        let secret = text.lines().nth(1).unwrap();
        // Truncated, garbled, empty, and not UTF-8.
        let garbled = text.replace(&secret[20..24], "!!!!");
        for malformed in [&text.as_bytes()[..text.len() / 2], garbled.as_bytes(), b"", &[0xff, 0xfe]] {
            fs::write(&path, malformed).unwrap();
            let error = cluster.try_prepare(NOW).unwrap_err();
            let printed = format!("{error} {error:?}");
            assert!(matches!(&error, PkiError::Malformed { path: named, .. } if *named == path), "{printed}");
            assert!(!printed.contains(&secret[..16]), "{printed}");
        }
    }
}

#[test]
fn unwritable_directory_is_named() {
    let cluster = Cluster::new();
    // Blocked by a file, because tests may run as root, for whom permissions are not checked.
    fs::write(&cluster.config.data_dir, "").unwrap();
    let error = cluster.try_prepare(NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot create {}", cluster.path("").display()).trim_end_matches('/')
    );
    drop(cluster.dir);
}

#[test]
fn concurrent_prepares_agree() {
    let cluster = Cluster::new();
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| cluster.prepare(NOW))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for one in &found {
        assert_eq!((&one.ca, &one.server_certificate), (&found[0].ca, &found[0].server_certificate));
    }
}

#[test]
fn debug_output_of_credentials_hides_the_key() {
    let credentials = Cluster::new().prepare(NOW);
    assert!(!format!("{credentials:?}").contains("PRIVATE KEY"));
}

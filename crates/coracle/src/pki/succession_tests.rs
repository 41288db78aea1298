//! Rotation of authorities with clients of both.

use std::fs;
use std::path::Path;
use std::time::Duration;

use coracle_base::Timestamp;

use super::authorities::TRUST_LEAD;
use super::leaf::MAX_LIFE;
use super::tests::{Cluster, NOW};
use super::*;

const DAY: Duration = Duration::from_hours(24);
const MOMENT: Duration = Duration::from_secs(1);

fn names(bundle: &str) -> Vec<String> {
    let found = authority::parse_pem(bundle).unwrap();
    found.iter().map(|der| authority::parse_der(der).unwrap().subject().to_string()).collect()
}

/// The issuer of the first certificate in a PEM file.
fn issuer(pem: &str) -> String {
    let der = authority::parse_pem(pem).unwrap().remove(0);
    authority::parse_der(&der).unwrap().issuer().to_string()
}

fn admin(cluster: &Cluster) -> String {
    fs::read_to_string(cluster.path("admin.crt")).unwrap()
}

const OLD: &str = "CN=coracle";
const NEW: &str = "CN=coracle@1800000000";

#[test]
fn new_authority_is_trusted_then_signs_then_is_the_only_one() {
    let cluster = Cluster::new();
    cluster.prepare(NOW);
    // It is trusted, but does not sign yet.
    let started = cluster.rotate(&["ca"], true, NOW);
    assert_eq!(names(&started.ca), [OLD, NEW]);
    assert_eq!((issuer(&started.server_certificate), issuer(&admin(&cluster))), (OLD.into(), OLD.into()));
    assert_eq!(started.due, NOW + TRUST_LEAD);
    cluster.check_modes();
    let kubeconfig = fs::read_to_string(&started.kubeconfig).unwrap();
    assert_eq!(names(&cluster.prepare(NOW + TRUST_LEAD - MOMENT).ca), [OLD, NEW]);

    // It signs client certificates. Serving certificates are still signed by the old authority.
    let promoted = cluster.prepare(NOW + TRUST_LEAD);
    assert_eq!(names(&promoted.ca), [NEW, OLD]);
    assert_eq!((issuer(&promoted.server_certificate), issuer(&admin(&cluster))), (OLD.into(), NEW.into()));
    assert_ne!(fs::read_to_string(&promoted.kubeconfig).unwrap(), kubeconfig);
    assert_eq!(fs::read_to_string(cluster.path("ca.crt")).unwrap(), promoted.ca);
    assert!(!cluster.path("ca-next.key").exists() && cluster.path("ca-old.key").exists());
    cluster.check_modes();

    // The last certificate of the old one has expired.
    let last = NOW + TRUST_LEAD + MAX_LIFE;
    assert_eq!(names(&cluster.prepare(last - MOMENT).ca), [NEW, OLD]);
    let done = cluster.prepare(last);
    assert_eq!((names(&done.ca), names(&done.withdrawn.concat())), (vec![NEW.into()], vec![OLD.into()]));
    assert_eq!((issuer(&done.server_certificate), issuer(&admin(&cluster))), (NEW.into(), NEW.into()));
    assert!(!cluster.path("ca-old.key").exists() && !cluster.path("ca-old.crt").exists());
    assert!(cluster.prepare(last).withdrawn.is_empty());
}

#[test]
fn authority_is_replaced_before_it_expires() {
    let cluster = Cluster::new();
    cluster.prepare(NOW);
    let due = NOW + DAY * 2920;
    assert_eq!(names(&cluster.prepare(due - DAY).ca).len(), 1);
    let started = cluster.prepare(due + DAY);
    assert_eq!(names(&started.ca).len(), 2);
    assert_eq!(names(&started.front_proxy_ca).len(), 2);
    // No start until the old one had expired: the successor takes over nevertheless.
    let late = cluster.prepare(NOW + DAY * 3651);
    assert_eq!(names(&late.ca).len(), 1);
    assert_ne!(names(&late.ca), [OLD]);
}

#[test]
fn second_rotation_of_an_authority_is_rejected() {
    let cluster = Cluster::new();
    cluster.prepare(NOW);
    cluster.rotate(&["ca"], true, NOW);
    let again = |names: &[&str]| {
        let names = names.iter().map(ToString::to_string).collect();
        request_rotation(&cluster.config.data_dir, &Rotation { names, authorities: true })
    };
    let error = again(&["ca"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ca is being replaced already; the next step is due on 2027-01-15T09:00:00Z"
    );
    assert!(again(&[]).is_err());
    assert!(again(&["front-proxy-ca"]).is_ok());
    cluster.prepare(NOW + TRUST_LEAD);
    assert!(again(&["ca"]).is_err(), "the old authority is still trusted");
}

/// A step that is interrupted after any of its files is completed, without breaking clients.
#[test]
fn interrupted_rotation_is_completed() {
    let whole = Cluster::new();
    whole.prepare(NOW);
    whole.rotate(&["ca"], true, NOW);
    let files = ["ca-old.key", "ca-old.crt", "ca.crt", "ca.key"];
    let before: Vec<_> = files.map(|file| fs::read(whole.path(file)).ok()).into();
    let next = ["ca-next.key", "ca-next.crt"].map(|file| (file, fs::read(whole.path(file)).unwrap()));
    whole.prepare(NOW + TRUST_LEAD);
    let after: Vec<_> = files.map(|file| fs::read(whole.path(file)).unwrap()).into();
    for written in 0..=files.len() {
        for (index, file) in files.iter().enumerate() {
            match (&before[index], index < written) {
                (_, true) => whole.write(file, &after[index]),
                (Some(bytes), false) => whole.write(file, bytes),
                (None, false) => drop(fs::remove_file(whole.path(file))),
            }
        }
        for (file, bytes) in &next {
            whole.write(file, bytes);
        }
        let prepared = whole.prepare(NOW + TRUST_LEAD);
        assert_eq!(names(&prepared.ca), [NEW, OLD], "after {written} files");
        assert_eq!(issuer(&prepared.server_certificate), OLD);
        assert!(!whole.path("ca-next.key").exists());
    }
}

#[test]
fn requested_rotation_is_carried_out_once() {
    let mut cluster = Cluster::new();
    cluster.prepare(NOW);
    let changed = cluster.changed_by(NOW, |cluster| {
        request_rotation(&cluster.config.data_dir, &Rotation::default()).unwrap();
    });
    let expected = ["admin.crt", "admin.key", "admin.kubeconfig", "apiserver.crt", "apiserver.key"];
    assert_eq!(changed, [&expected[..], &["front-proxy-client.crt", "front-proxy-client.key"]].concat());
    assert_eq!(cluster.changed_by(NOW, |_| ()), [""; 0]);
}

#[test]
fn unknown_certificate_name_is_rejected() {
    let cluster = Cluster::new();
    let rotate_name = |name: &str, authorities| {
        let rotation = Rotation { names: vec![name.to_owned()], authorities };
        request_rotation(&cluster.config.data_dir, &rotation).unwrap_err().to_string()
    };
    assert!(rotate_name("admin", false).starts_with("there are no certificates in "));
    assert!(rotate_name("ca", false).contains("add --ca"));
    assert!(rotate_name("x", true).contains("expected one of ca, front-proxy-ca, apiserver, admin"));
}

#[test]
fn tokens_of_a_retired_key_are_accepted_for_a_year() {
    let cluster = Cluster::new();
    let first = cluster.prepare(NOW).account_keys;
    let second = cluster.rotate(&["sa"], false, NOW).account_keys;
    assert_ne!(first.signing.expose(), second.signing.expose());
    let key = |pem: &str| private_key::parse(pem).unwrap().public_key_pem();
    assert_eq!(second.retired, [key(first.signing.expose())]);
    let third = cluster.rotate(&["sa"], false, NOW + DAY * 300).account_keys;
    assert_eq!(third.retired, [key(first.signing.expose()), key(second.signing.expose())]);
    assert_eq!(cluster.prepare(NOW + DAY * 366).account_keys.retired.len(), 1);
    assert!(cluster.prepare(NOW + DAY * 700).account_keys.retired.is_empty());
    assert!(!cluster.path("sa-old.pub").exists());
}

#[test]
fn kubeconfig_certificate_has_all_groups() {
    let cluster = Cluster::new();
    let data_dir: &Path = &cluster.config.data_dir;
    let request = |user: &str, groups: &[&str], life| KubeconfigRequest {
        user: user.to_owned(),
        groups: groups.iter().map(ToString::to_string).collect(),
        life,
        server: None,
        scope: CredentialScope::DefaultCluster,
    };
    let create = |request: &KubeconfigRequest| create_kubeconfig(data_dir, request, NOW);
    assert!(matches!(create(&request("jane", &[], DAY)), Err(PkiError::NoCluster { .. })));
    cluster.prepare(NOW);
    let text = create(&request("jane", &["dev", "ops"], DAY)).unwrap();
    assert!(text.contains("server: https://127.0.0.1:6443\n"), "{text}");
    let data = text.lines().find_map(|line| line.trim().strip_prefix("client-certificate-data: ")).unwrap();
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
    let der = authority::parse_pem(&String::from_utf8(pem).unwrap()).unwrap().remove(0);
    let certificate = authority::parse_der(&der).unwrap();
    assert_eq!(certificate.subject().to_string(), "O=dev, O=ops, CN=jane");
    assert_eq!(schedule::of(&certificate).ends, Timestamp::from_millis(1_800_086_400_000));
    assert_eq!(CredentialScope::of_certificate(&certificate), Ok(CredentialScope::DefaultCluster));
    for (bad, why) in [
        (request("", &[], DAY), "need a name"),
        (request("jane", &[""], DAY), "need a name"),
        (request("jane", &[], DAY * 366), "at most 8760 hours"),
        (request("jane", &[], Duration::ZERO), "at most 8760 hours"),
    ] {
        let error = create(&bad).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn inventory_lists_roles_and_due_times() {
    let cluster = Cluster::new();
    cluster.prepare(NOW);
    let roles = |names: &[Item]| names.iter().map(|item| (item.name.clone(), item.role)).collect::<Vec<_>>();
    let items = list(&cluster.config.data_dir).unwrap();
    let plain = [
        ("ca", Role::Authority),
        ("front-proxy-ca", Role::Authority),
        ("apiserver", Role::Server),
        ("admin", Role::Client),
        ("front-proxy-client", Role::Client),
        ("sa", Role::TokenKey),
    ]
    .map(|(name, role)| (name.to_owned(), role));
    assert_eq!(roles(&items), plain);
    let server = &items[2];
    assert!(server.names.contains(&"kubernetes.default.svc".to_owned()), "{server:?}");
    assert!(server.names.contains(&"10.96.0.1".to_owned()), "{server:?}");
    assert_eq!(
        (server.usages.join(", "), server.signer.as_str()),
        ("digital signature, server auth".into(), OLD)
    );
    assert!(server.due < server.expires);
    assert_eq!(items[3].subject, "O=system:masters, CN=kubernetes-admin");
    assert_eq!((items[5].expires, items[5].due), (None, None));
    cluster.rotate(&["ca"], true, NOW);
    let items = list(&cluster.config.data_dir).unwrap();
    assert_eq!(items[1].role, Role::NextAuthority);
    assert_eq!((items[0].due, items[1].due), (None, Some(NOW + TRUST_LEAD)));
}

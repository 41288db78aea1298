//! Allowed dependencies between crates. This table is authoritative; ARCHITECTURE.md explains it.

use super::Violation;
use super::tree::{Dependency, Package, Tree};

/// The workspace crates that a crate may depend on.
enum Uses {
    Anything,
    Only(&'static [&'static str]),
}

use Uses::{Anything, Only};

/// Harness of whole-cluster tests: a dev-dependency of any crate, a dependency of none.
const TESTKIT: &str = "coracle-testkit";

/// From the bottom up. Adding an edge is an architectural decision: only `registry` reads and writes `store`
/// (`coracle` only opens it and passes it on), and everything that acts on objects does so through `runtime` and its
/// client.
const TABLE: &[(&str, Uses)] = &[
    ("coracle-base", Only(&[])),
    ("coracle-meta", Only(&[])),
    ("coracle-edge", Only(&[])),
    ("coracle-cel", Only(&["coracle-meta"])),
    ("coracle-api", Only(&["coracle-meta"])),
    ("coracle-crd", Only(&["coracle-cel", "coracle-meta"])),
    ("coracle-store", Only(&["coracle-base"])),
    (
        "coracle-registry",
        Only(&["coracle-store", "coracle-crd", "coracle-cel", "coracle-api", "coracle-meta", "coracle-base"]),
    ),
    (
        "coracle-apiserver",
        Only(&[
            "coracle-registry",
            "coracle-crd",
            "coracle-cel",
            "coracle-api",
            "coracle-meta",
            "coracle-base",
        ]),
    ),
    ("coracle-runtime", Only(&["coracle-api", "coracle-meta", "coracle-base"])),
    // Controllers type-check the expressions of policies with the same rules as the server.
    (
        "coracle-controllers",
        Only(&["coracle-runtime", "coracle-cel", "coracle-api", "coracle-meta", "coracle-base"]),
    ),
    ("coracle-scheduler", Only(&["coracle-runtime", "coracle-api", "coracle-meta", "coracle-base"])),
    ("coracle-fake-node", Only(&["coracle-runtime", "coracle-meta", "coracle-base"])),
    ("coracle-container", Only(&["coracle-api", "coracle-meta", "coracle-base"])),
    (
        "coracle-kubelet",
        Only(&["coracle-runtime", "coracle-container", "coracle-api", "coracle-meta", "coracle-base"]),
    ),
    ("coracle-net", Only(&["coracle-runtime", "coracle-api", "coracle-meta", "coracle-base"])),
    ("coracle-quilt", Only(&["coracle-runtime", "coracle-api", "coracle-meta", "coracle-base"])),
    (
        "coracle",
        Only(&[
            // One manager runs the controllers and everything else that watches the API. `coracle` starts it after
            // the server is ready and stops it before the server, as it does with the store.
            "coracle-runtime",
            "coracle-apiserver",
            "coracle-controllers",
            "coracle-scheduler",
            "coracle-fake-node",
            "coracle-kubelet",
            "coracle-net",
            "coracle-quilt",
            "coracle-store",
            "coracle-api",
            "coracle-meta",
            "coracle-base",
        ]),
    ),
    ("coracle-cli", Only(&["coracle", "coracle-edge", "coracle-api", "coracle-meta", "coracle-base"])),
    // It starts a real server per test, which `coracle` assembles.
    (TESTKIT, Only(&["coracle", "coracle-api", "coracle-meta", "coracle-base"])),
    ("coracle-benches", Anything),
    ("coracle-fuzz", Only(&["coracle-api", "coracle-base", "coracle-cel", "coracle-crd", "coracle-meta"])),
    ("xtask", Only(&[])),
];

/// Reports dependencies between members, and members, that are not in the table.
pub(super) fn between_crates(tree: &Tree) -> Vec<Violation> {
    tree.packages.iter().flat_map(|package| of_package(package, &tree.packages)).collect()
}

fn of_package(package: &Package, members: &[Package]) -> Vec<Violation> {
    let Some((_, uses)) = TABLE.iter().find(|(name, _)| *name == package.name) else {
        let message = format!("{} is not in the table of allowed dependencies in {}", package.name, file!());
        return vec![Violation::in_file(&package.manifest, message)];
    };
    let is_member =
        |used: &&Dependency| used.path.is_some() && members.iter().any(|member| member.name == used.name);
    let dependencies = package.dependencies.iter().filter(is_member);
    dependencies
        .filter(|used| !may_use(&package.name, uses, used))
        .map(|used| Violation::in_file(&package.manifest, refusal(&package.name, used)))
        .collect()
}

fn may_use(from: &str, uses: &Uses, used: &Dependency) -> bool {
    let for_tests = used.kind.as_deref() == Some("dev") && (used.name == TESTKIT || used.name == from);
    for_tests
        || match uses {
            Anything => true,
            Only(allowed) => allowed.contains(&used.name.as_str()),
        }
}

fn refusal(from: &str, used: &Dependency) -> String {
    let kind = used.kind.as_deref().map(|kind| format!(" ({kind}-dependency)")).unwrap_or_default();
    format!("{from} may not use {}{kind}: not in the table of allowed dependencies in {}", used.name, file!())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::tests::{package, tree};

    fn check(packages: Vec<Package>) -> Vec<String> {
        let tree = Tree { packages, ..tree(&[]) };
        between_crates(&tree).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn edges_in_the_table_pass() {
        let violations = check(vec![
            package("coracle-base", &[]),
            package("coracle-store", &[("coracle-base", None), ("tokio", None)]),
            package("coracle-benches", &[("coracle-store", None)]),
        ]);
        assert_eq!(violations, [""; 0]);
    }

    #[test]
    fn violation_names_both_crates_and_the_table() {
        let violations = check(vec![
            package("coracle-apiserver", &[("coracle-store", None)]),
            package("coracle-store", &[]),
        ]);
        assert_eq!(violations.len(), 1);
        for part in ["coracle-apiserver", "coracle-store", "src/tidy/edges.rs"] {
            assert!(violations[0].contains(part), "{violations:?}");
        }
    }

    #[test]
    fn tests_may_use_the_testkit_and_the_crate_itself() {
        let members = |kind| {
            vec![
                package("coracle-store", &[("coracle-testkit", kind), ("coracle-store", kind)]),
                package("coracle-testkit", &[]),
            ]
        };
        assert_eq!(check(members(Some("dev"))), [""; 0]);
        assert_eq!(check(members(None)).len(), 2);
    }

    #[test]
    fn tests_may_use_no_other_crates() {
        let members = vec![
            package("coracle-store", &[("coracle-apiserver", Some("dev"))]),
            package("coracle-apiserver", &[]),
        ];
        assert_eq!(check(members).len(), 1);
    }

    #[test]
    fn crate_missing_from_the_table_is_rejected() {
        assert_eq!(check(vec![package("coracle-surprise", &[])]).len(), 1);
    }

    #[test]
    fn crates_io_package_of_the_same_name_is_no_edge() {
        let mut store = package("coracle-store", &[("coracle-edge", None)]);
        store.dependencies[0].path = None;
        assert_eq!(check(vec![store, package("coracle-edge", &[])]), [""; 0]);
    }

    #[test]
    fn table_lists_every_crate_that_it_names() {
        let listed = |name: &str| TABLE.iter().any(|(known, _)| *known == name);
        for (from, uses) in TABLE {
            if let Only(allowed) = uses {
                assert!(allowed.iter().all(|name| listed(name)), "{from} may use a crate that is not listed");
            }
        }
    }
}

//! Which crate may use which. This table is the one place that says so; ARCHITECTURE.md explains it.

use super::Violation;
use super::tree::{Dependency, Package, Tree};

/// What a crate may use of the workspace.
enum Uses {
    Anything,
    Only(&'static [&'static str]),
}

use Uses::{Anything, Only};

/// The harness of whole-cluster tests; every crate may test with it, none may ship it.
const TESTKIT: &str = "coracle-testkit";

/// From the ground up. An arrow that is not here is a decision to argue for, not a line to add in passing:
/// only `registry` reads and writes `store` (`coracle` just opens it and hands it on), and everything that
/// acts on objects does so through `runtime` and its client.
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
    // What the expressions of a policy mean is the same for the server and for who checks their types.
    (
        "coracle-controllers",
        Only(&["coracle-runtime", "coracle-cel", "coracle-api", "coracle-meta", "coracle-base"]),
    ),
    ("coracle-scheduler", Only(&["coracle-runtime", "coracle-api", "coracle-meta", "coracle-base"])),
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
            // One manager runs the controllers and whatever else follows the API; `coracle` owns its life,
            // as it owns the store's: after the server is ready, until before it stops.
            "coracle-runtime",
            "coracle-apiserver",
            "coracle-controllers",
            "coracle-scheduler",
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
    // It starts a real server per test, which is what `coracle` assembles.
    (TESTKIT, Only(&["coracle", "coracle-api", "coracle-meta", "coracle-base"])),
    ("coracle-benches", Anything),
    ("coracle-fuzz", Only(&["coracle-api", "coracle-base", "coracle-cel", "coracle-crd", "coracle-meta"])),
    ("xtask", Only(&[])),
];

/// Every dependency between members is in the table, and every member is.
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
    fn an_edge_not_in_the_table_names_both_ends_and_the_table() {
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
    fn tests_may_not_use_more_than_that() {
        let members = vec![
            package("coracle-store", &[("coracle-apiserver", Some("dev"))]),
            package("coracle-apiserver", &[]),
        ];
        assert_eq!(check(members).len(), 1);
    }

    #[test]
    fn a_crate_missing_from_the_table_is_refused() {
        assert_eq!(check(vec![package("coracle-surprise", &[])]).len(), 1);
    }

    #[test]
    fn a_registry_crate_of_the_same_name_is_no_edge() {
        let mut store = package("coracle-store", &[("coracle-edge", None)]);
        store.dependencies[0].path = None;
        assert_eq!(check(vec![store, package("coracle-edge", &[])]), [""; 0]);
    }

    #[test]
    fn the_table_speaks_only_of_crates_it_lists() {
        let listed = |name: &str| TABLE.iter().any(|(known, _)| *known == name);
        for (from, uses) in TABLE {
            if let Only(allowed) = uses {
                assert!(allowed.iter().all(|name| listed(name)), "{from} may use a crate that is not listed");
            }
        }
    }
}

//! Installs Debian packages where that needs no password: as root, on Debian or a derivative.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{command, run};

/// Script that decides whether a package may start its service (policy-rc.d, Debian Policy 9.3.3).
const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";

/// Returns true if packages can be installed without a password prompt.
pub(crate) fn can_install() -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    effective_uid(&read("/proc/self/status")) == Some(0) && is_debian(&read("/etc/os-release"))
}

/// Prints the names of the packages and installs them.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    println!("installing what the tests need: {}", packages.join(" "));
    run(command("apt-get").arg("update"))?;
    let _policy = NoServices::set(Path::new(SERVICE_POLICY))?;
    let mut install = command("apt-get");
    install.args(["install", "-y", "--no-install-recommends"]).args(packages);
    run(install.env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Prevents packages from starting their services while it lives. Tests start their own, and a service that cannot
/// start (no init in a container, a port in use) would fail the installation.
struct NoServices<'a> {
    /// The policy file that this guard created and removes when dropped; none if the machine has its own.
    written: Option<&'a Path>,
}

impl<'a> NoServices<'a> {
    fn set(path: &'a Path) -> Result<Self> {
        use std::io::Write as _;
        let created = fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(path);
        let mut file = match created {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Self { written: None }),
            Err(error) => return Err(error).with_context(|| format!("writing {}", path.display())),
        };
        let policy = Self { written: Some(path) };
        // 101: "action forbidden by policy", which is no error for the package.
        file.write_all(b"#!/bin/sh\nexit 101\n").with_context(|| format!("writing {}", path.display()))?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(policy)
    }
}

impl Drop for NoServices<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.written
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("removing {}: {error}", path.display());
        }
    }
}

/// The second number of the `Uid:` line (proc_pid_status(5)).
fn effective_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns true if os-release(5) names Debian or a derivative.
fn is_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches(['"', '\'']).split_whitespace())
        .any(|id| id == "debian" || id == "ubuntu")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effective_uid_is_parsed_from_proc_status() {
        assert_eq!(effective_uid("Name:\tsh\nUid:\t1000\t0\t1000\t1000\n"), Some(0));
        assert_eq!(effective_uid("Name:\tsh\nUid:\t0\t1000\t0\t0\n"), Some(1000));
        assert_eq!(effective_uid(""), None);
    }

    #[test]
    fn debian_and_derivatives_are_detected() {
        assert!(is_debian("NAME=x\nID=debian\n"));
        assert!(is_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian("ID=fedora\n"));
        assert!(!is_debian("VERSION_ID=debian\nID=alpine\n"));
    }

    #[test]
    fn own_policy_is_removed_and_existing_policy_is_kept() {
        let path = std::env::temp_dir().join(format!("xtask-policy-{}", std::process::id()));
        drop(NoServices::set(&path).unwrap());
        assert!(!path.exists());

        fs::write(&path, "found").unwrap();
        drop(NoServices::set(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "found");
        fs::remove_file(&path).unwrap();
    }
}

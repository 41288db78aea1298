//! Files and directories that no other user of the machine could have written.
//!
//! A user who can write the data directory can plant an authority or a key and become any user of the
//! cluster. So everything the server trusts must belong to the user who runs it, or to root, and must not
//! be writable by others. Files are opened first and then checked by their descriptor, so that the file
//! which is checked is the file which is read. Symbolic links within the data directory are not followed.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The permission bits by which others than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The permission bits by which others than the owner may do anything.
const OPEN_TO_OTHERS: u32 = 0o077;

/// The permission bits of a file that only its owner may open.
const PRIVATE_MODE: u32 = 0o600;

/// Why a file is not trusted, and the command that fixes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntrustedFile {
    /// Another user owns it.
    #[error(
        "{} belongs to user id {owner}, and the server runs as {expected}: another user could have written it; \
         if it is yours, run: chown {expected} {}",
        .path.display(),
        .path.display()
    )]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The user who runs the server.
        expected: u32,
    },
    /// Other users can write it.
    #[error("{} can be written by other users (mode {mode:04o}); run: chmod go-w {}", .path.display(), .path.display())]
    Writable {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It holds a private key that other users can read.
    #[error(
        "{} holds a private key and can be read by other users (mode {mode:04o}); run: chmod 600 {}",
        .path.display(),
        .path.display()
    )]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is a symbolic link.
    #[error("{} is a symbolic link, which is not followed; put what it points to in its place", .path.display())]
    SymbolicLink {
        /// The link.
        path: PathBuf,
    },
    /// It is a device, a pipe or the like.
    #[error("{} is not a regular file; remove it, or restore the file", .path.display())]
    Special {
        /// The file.
        path: PathBuf,
    },
}

/// Why a trusted file was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The users who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// Anyone: certificates.
    Public,
    /// Its owner only: private keys.
    Private,
}

impl Secrecy {
    /// The mode of a new file.
    pub(crate) fn mode(self) -> u32 {
        match self {
            Secrecy::Public => 0o644,
            Secrecy::Private => 0o600,
        }
    }
}

/// Treatment of a symbolic link in the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// For paths that the user gave, such as the data directory.
    Followed,
    /// For names within the server's own directories.
    Refused,
}

/// Opens a directory that only its owner can write.
pub(crate) fn open_dir(path: &Path, links: Links) -> Result<File, OpenError> {
    let dir = open(path, OFlags::DIRECTORY, links)?;
    check_trust(path, &dir.metadata()?, Secrecy::Public)?;
    Ok(dir)
}

/// The contents of a file within the server's own directories; none if there is no such file.
pub(crate) fn read(path: &Path, secrecy: Secrecy) -> Result<Option<Vec<u8>>, OpenError> {
    // Non-blocking, because opening a pipe would wait.
    let mut file = match open(path, OFlags::NONBLOCK, Links::Refused) {
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(UntrustedFile::Special { path: path.to_owned() }.into());
    }
    check_trust(path, &metadata, secrecy)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The contents of a file that the user named. Links are followed, because Kubernetes mounts Secrets
/// through links; pipes are read, as shells create them for `<(command)`.
pub(crate) fn read_named(path: &Path) -> Result<Vec<u8>, OpenError> {
    let mut file = open(path, OFlags::empty(), Links::Followed)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        check_trust(path, &metadata, Secrecy::Public)?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks everything in a directory that [`open_dir`] has checked. No other user can change its entries
/// meanwhile, so they may be looked up by name.
pub(crate) fn check_entries(dir: &Path) -> Result<(), OpenError> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let metadata = match fs::symlink_metadata(&path) {
            // A process that ends removes its own files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if metadata.is_symlink() {
            return Err(UntrustedFile::SymbolicLink { path }.into());
        }
        check_trust(&path, &metadata, Secrecy::Public)?;
    }
    Ok(())
}

/// Opens a file in the server's own directories to read and write it, and creates it if there is none.
/// Other users cannot open it afterwards, not even to lock it, for which a system needs no more than the
/// right to read.
pub(crate) fn open_or_create_private(path: &Path) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_MODE);
    let file = open_with(options, path, OFlags::NONBLOCK, Links::Refused)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(UntrustedFile::Special { path: path.to_owned() }.into());
    }
    check_trust(path, &metadata, Secrecy::Public)?;
    if metadata.mode() & OPEN_TO_OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE_MODE))?;
    }
    Ok(file)
}

fn open(path: &Path, flags: OFlags, links: Links) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true);
    open_with(options, path, flags, links)
}

fn open_with(mut options: OpenOptions, path: &Path, flags: OFlags, links: Links) -> Result<File, OpenError> {
    let flags = if links == Links::Refused { flags | OFlags::NOFOLLOW } else { flags };
    let bits = i32::try_from(flags.bits()).expect("flags of the system fit its own type");
    options.custom_flags(bits).open(path).map_err(|error| {
        // Only to explain the failure: the link was not followed.
        let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if links == Links::Refused && is_link {
            UntrustedFile::SymbolicLink { path: path.to_owned() }.into()
        } else {
            error.into()
        }
    })
}

fn check_trust(path: &Path, metadata: &Metadata, secrecy: Secrecy) -> Result<(), UntrustedFile> {
    check_trust_as(geteuid().as_raw(), path, metadata.uid(), metadata.mode(), secrecy)
}

/// Files owned by root are trusted: root can write everything anyway.
fn check_trust_as(
    user: u32,
    path: &Path,
    owner: u32,
    mode: u32,
    secrecy: Secrecy,
) -> Result<(), UntrustedFile> {
    let path = path.to_owned();
    let mode = mode & 0o7777;
    if owner != user && owner != 0 {
        return Err(UntrustedFile::Owner { path, owner, expected: user });
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(UntrustedFile::Writable { path, mode });
    }
    if secrecy == Secrecy::Private && mode & OPEN_TO_OTHERS != 0 {
        return Err(UntrustedFile::Readable { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn untrusted<T: std::fmt::Debug>(outcome: Result<T, OpenError>) -> UntrustedFile {
        match outcome {
            Err(OpenError::Untrusted(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn file_of_another_user_or_writable_by_others_is_rejected_with_the_fix() {
        let path = Path::new("/d/pki/ca.key");
        for (owner, mode, secrecy, fix) in [
            (1000, 0o100_600, Secrecy::Private, None),
            (0, 0o100_644, Secrecy::Public, None),
            (1000, 0o40_755, Secrecy::Public, None),
            (1001, 0o100_600, Secrecy::Private, Some("chown 1000 /d/pki/ca.key")),
            (1000, 0o100_620, Secrecy::Private, Some("chmod go-w /d/pki/ca.key")),
            (1000, 0o100_602, Secrecy::Public, Some("chmod go-w /d/pki/ca.key")),
            (1000, 0o40_777, Secrecy::Public, Some("chmod go-w /d/pki/ca.key")),
            (1000, 0o100_640, Secrecy::Private, Some("chmod 600 /d/pki/ca.key")),
        ] {
            let text = check_trust_as(1000, path, owner, mode, secrecy).map_err(|error| error.to_string());
            match fix {
                None => assert_eq!(text, Ok(())),
                Some(fix) => assert!(text.clone().is_err_and(|text| text.ends_with(fix)), "{text:?}"),
            }
        }
        assert!(check_trust_as(0, path, 1000, 0o100_600, Secrecy::Public).is_err(), "root trusts only root");
    }

    #[test]
    fn links_and_pipes_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "text").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read(&file, Secrecy::Private).unwrap(), Some(b"text".to_vec()));
        assert_eq!(read(&dir.path().join("none"), Secrecy::Public).unwrap(), None);
        let expected = UntrustedFile::SymbolicLink { path: link.clone() };
        assert_eq!(untrusted(read(&link, Secrecy::Public)), expected);
        assert_eq!(untrusted(check_entries(dir.path())), expected);
        assert_eq!(read_named(&link).unwrap(), b"text", "links of the user are followed");

        let (real, alias) = (dir.path().join("real"), dir.path().join("alias"));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, Permissions::from_mode(0o755)).unwrap();
        symlink(&real, &alias).unwrap();
        assert_eq!(
            untrusted(open_dir(&alias, Links::Refused)),
            UntrustedFile::SymbolicLink { path: alias.clone() }
        );
        assert!(open_dir(&alias, Links::Followed).is_ok() && open_dir(&real, Links::Refused).is_ok());
        let special = untrusted(read(&real, Secrecy::Public));
        assert_eq!(special, UntrustedFile::Special { path: real });
    }
}

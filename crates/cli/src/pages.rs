//! Releases the resident pages of the executable while the server is idle.
//!
//! Startup touches most of the executable, and the kernel maps more pages around each page that is touched; an idle
//! cluster needs a tenth of them. Released pages stay in the kernel's page cache and are mapped again on access: the
//! first request after an idle period takes a millisecond longer.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::ops::Range;
use std::time::Duration;

use coracle::Activity;

/// Time without requests before pages are released.
const IDLE_TIME: Duration = Duration::from_secs(3);

/// Releases the pages each time the server becomes idle.
pub(crate) async fn release_when_idle(activity: &Activity) -> Infallible {
    let mut program = None;
    loop {
        activity.quiet(IDLE_TIME).await;
        let mapped = program.get_or_insert_with(|| {
            // Not releasing the pages only costs a little memory.
            mapped_program()
                .inspect_err(|error| tracing::debug!(%error, "cannot release pages of the executable"))
                .ok()
        });
        for range in mapped.iter().flatten() {
            release(range);
        }
        activity.resumed().await;
    }
}

/// Ranges in which the executable is mapped and unmodified.
fn mapped_program() -> io::Result<Vec<Range<usize>>> {
    let path = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/smaps")?;
    Ok(unmodified(&maps, &path.to_string_lossy()))
}

/// Read-only mappings of a file without modified pages. Pages that the loader modified before it made the mapping
/// read-only are anonymous, no longer backed by the file.
fn unmodified(maps: &str, path: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in maps.lines() {
        if let Some(mapping) = mapping(line) {
            current = Some(mapping).filter(|(_, rights, of)| !rights.contains('w') && *of == path);
        } else if line.strip_prefix("Anonymous:").is_some_and(|size| size.trim() == "0 kB") {
            found.extend(current.take().map(|(range, ..)| range));
        }
    }
    found
}

/// Parses the first line of a mapping in smaps: range, permissions and path.
fn mapping(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (rights, rest) = rest.split_once(' ')?;
    // Offset, device and inode come before the path, which may contain spaces.
    let path = rest.splitn(4, ' ').nth(3).unwrap_or_default();
    Some((range, rights, path.trim_start()))
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "madvise on read-only, file-backed pages; no data is lost")]
fn release(range: &Range<usize>) {
    use rustix::mm::{Advice, madvise};

    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range is a read-only, unmodified mapping of the executable (`unmodified`). Reading a released page
    // faults it in from the file again, with the same bytes: a mapped executable cannot be modified. The executable
    // is never unmapped.
    let given = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
    if let Err(error) = given {
        tracing::debug!(%error, "cannot release pages of the executable");
    }
}

#[cfg(not(target_os = "linux"))]
fn release(_: &Range<usize>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unmodified_read_only_mappings_are_released() {
        let maps = "\
1000-2000 r--p 00000000 fe:00 12                         /a b/coracle
Rss:                   4 kB
Anonymous:             0 kB
2000-5000 r-xp 00001000 fe:00 12                         /a b/coracle
Anonymous:             0 kB
5000-6000 r--p 00004000 fe:00 12                         /a b/coracle
Anonymous:             4 kB
6000-7000 rw-p 00005000 fe:00 12                         /a b/coracle
Anonymous:             0 kB
7000-8000 rw-p 00000000 00:00 0                          [heap]
Anonymous:             0 kB
8000-9000 r-xp 00000000 fe:00 13                         /usr/lib/libc.so.6
Anonymous:             0 kB
9000-a000 r--p 00000000 00:00 0
Anonymous:             0 kB
";
        assert_eq!(unmodified(maps, "/a b/coracle"), [0x1000..0x2000, 0x2000..0x5000]);
        assert!(unmodified("no such file\n", "/a b/coracle").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn executable_keeps_running_after_release() {
        let program = mapped_program().unwrap();
        let here = executable_keeps_running_after_release as fn() as usize;
        assert!(program.iter().any(|range| range.contains(&here)), "{program:x?}");
        program.iter().for_each(release);
        assert_eq!(mapped_program().unwrap(), program);
    }
}

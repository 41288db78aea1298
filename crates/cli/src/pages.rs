//! The pages of the program itself, which are given back while nobody asks anything.
//!
//! To start touches most of the program, and around each page that is touched the kernel maps more; a cluster at
//! rest needs a tenth of that. What is given back stays in the kernel's cache of the file, and is mapped again where
//! it is touched: the first request after a rest takes a millisecond longer.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::ops::Range;
use std::time::Duration;

use coracle::Activity;

/// For how long nobody must have asked.
const QUIET: Duration = Duration::from_secs(3);

/// Gives the pages back each time that nobody has asked for a while.
pub(crate) async fn give_back_when_quiet(activity: &Activity) -> Infallible {
    let mut program = None;
    loop {
        activity.quiet(QUIET).await;
        let mapped = program.get_or_insert_with(|| {
            // Where this cannot be told it is only a little more memory.
            mapped_program().inspect_err(|error| tracing::debug!(%error, "the program keeps its pages")).ok()
        });
        for range in mapped.iter().flatten() {
            give_back(range);
        }
        activity.resumed().await;
    }
}

/// Where the file of the program is mapped, and as it is in the file.
fn mapped_program() -> io::Result<Vec<Range<usize>>> {
    let path = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/smaps")?;
    Ok(unchanged(&maps, &path.to_string_lossy()))
}

/// The mappings of a file that nobody can write to and nobody has written to: what the loader has changed before it
/// took the right to write away has pages that are not of the file.
fn unchanged(maps: &str, path: &str) -> Vec<Range<usize>> {
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

/// The first line of what is said of a mapping: where it is, the rights, and the path of its file.
fn mapping(line: &str) -> Option<(Range<usize>, &str, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let range = address(start)?..address(end)?;
    let (rights, rest) = rest.split_once(' ')?;
    // Offset, device and number of the file come before its path, which may have spaces in it.
    let path = rest.splitn(4, ' ').nth(3).unwrap_or_default();
    Some((range, rights, path.trim_start()))
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a system call about memory, of which nothing is lost")]
fn give_back(range: &Range<usize>) {
    use rustix::mm::{Advice, madvise};

    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: the range is a mapping of the program's own file, which nobody can write to and which is as it is in
    // the file (`unchanged`). Whoever touches a page that was given back finds the same bytes: they are read from the
    // file again, which stays what it was for as long as it is mapped. The program is never unmapped.
    let given = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
    if let Err(error) = given {
        tracing::debug!(%error, "the program keeps its pages");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: &Range<usize>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_as_in_the_file_is_given_back() {
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
        assert_eq!(unchanged(maps, "/a b/coracle"), [0x1000..0x2000, 0x2000..0x5000]);
        assert!(unchanged("no such file\n", "/a b/coracle").is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_program_goes_on_without_its_pages() {
        let program = mapped_program().unwrap();
        let here = the_program_goes_on_without_its_pages as fn() as usize;
        assert!(program.iter().any(|range| range.contains(&here)), "{program:x?}");
        program.iter().for_each(give_back);
        assert_eq!(mapped_program().unwrap(), program);
    }
}

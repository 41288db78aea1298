//! The memory of a stack, and calls on it.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::thread::Result;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// Address space of a stack: 25 KiB for each of 10 000 levels. Without optimization, the most expensive level, one of
/// YAML, takes 9 KiB; with optimization, less than 2 KiB.
pub const STACK_BYTES: usize = 256 << 20;

/// Size of the guard at the low end. Access to it is a fault, so that an infinite recursion crashes, as on the stack of a
/// thread, and does not overwrite other memory. Frames are smaller than the guard.
const GUARD_BYTES: usize = 1 << 20;

/// Size of the part at the high end that every call uses, so that [`Stack::trim`] keeps its pages.
const BUSY_BYTES: usize = 1 << 20;

/// A mapped stack, unmapped on drop.
pub(super) struct Stack {
    /// The lowest address, which is that of the guard.
    base: *mut c_void,
}

impl Stack {
    /// Maps a stack.
    pub(super) fn new() -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // The kernel does not have to reserve memory for all of it.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address chosen by the kernel changes no memory in use.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), STACK_BYTES, protection, flags) };
        let base = mapped.unwrap_or_else(|error| {
            panic!("cannot map {STACK_BYTES} bytes of address space for a stack: {error} (is it limited by ulimit -v?)")
        });
        let stack = Self { base };
        // SAFETY: the range is the beginning of the mapping made above, and no reference to it exists.
        let guarded = unsafe { mprotect(base, GUARD_BYTES, MprotectFlags::empty()) };
        guarded.unwrap_or_else(|error| panic!("cannot protect the end of a stack: {error}"));
        stack.use_small_pages();
        stack
    }

    /// Calls `work` on this stack, and returns its result or its panic.
    pub(super) fn call<R>(&mut self, work: impl FnOnce() -> R) -> Result<R> {
        let work = || catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the range is mapped readable and writable except for the guard at its low end, its bounds are multiples
        // of the page size, its size is less than `isize::MAX`, and `&mut self` guarantees that no other call runs on it.
        // No panic unwinds beyond the stack, because all are caught.
        unsafe { psm::on_stack(self.base.cast(), STACK_BYTES, work) }
    }

    /// Returns rarely used pages to the kernel. `&mut self` guarantees that no call runs on the stack.
    pub(super) fn trim(&mut self) {
        let bytes = STACK_BYTES - GUARD_BYTES - BUSY_BYTES;
        // SAFETY: the range is within the mapping. A stack that is not in use has no content, so its pages may be
        // discarded.
        let trimmed = unsafe { madvise(self.base.byte_add(GUARD_BYTES), bytes, DISCARD) };
        // A failure is harmless: the pages stay.
        let _is_applied = trimmed.is_ok();
    }

    /// Disables huge pages: one would take 2 MiB for the first kilobytes.
    #[cfg(target_os = "linux")]
    fn use_small_pages(&self) {
        // SAFETY: the range is the mapping of this stack; the advice changes no content.
        let advised = unsafe { madvise(self.base, STACK_BYTES, Advice::LinuxNoHugepage) };
        // A kernel without huge pages rejects this advice, which is harmless.
        let _is_applied = advised.is_ok();
    }

    #[cfg(not(target_os = "linux"))]
    fn use_small_pages(&self) {}
}

#[cfg(target_os = "linux")]
const DISCARD: Advice = Advice::LinuxDontNeed;
#[cfg(not(target_os = "linux"))]
const DISCARD: Advice = Advice::DontNeed;

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, no call runs on it, and no reference into it exists.
        let unmapped = unsafe { munmap(self.base, STACK_BYTES) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

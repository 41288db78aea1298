//! The memory of a stack, and the call on it.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::thread::Result;

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

/// Address space of a stack: 25 KiB for each of 10 000 levels. Without optimization the most expensive level, one of
/// YAML, takes 9 KiB; with it, less than 2 KiB.
pub const STACK_BYTES: usize = 256 << 20;

/// The part at the low end that nothing can be written to, so that a recursion without end is a fault, as on the stack
/// of a thread, and does not write into other memory. Frames are smaller than this.
const GUARD_BYTES: usize = 1 << 20;

/// The part at the high end that is used all the time, and that [`Stack::trim`] leaves alone.
const BUSY_BYTES: usize = 1 << 20;

/// A stack. It is mapped until it is dropped.
pub(super) struct Stack {
    /// The lowest address, of the guard.
    base: *mut c_void,
}

impl Stack {
    /// Maps a stack.
    pub(super) fn new() -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // The kernel need not set memory aside for all of it.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses changes no memory that is in use.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), STACK_BYTES, protection, flags) };
        let base = mapped.unwrap_or_else(|error| {
            panic!("cannot map {STACK_BYTES} bytes of address space for a stack: {error} (is it limited by ulimit -v?)")
        });
        let stack = Self { base };
        // SAFETY: the range is the beginning of the mapping made above, and nothing refers to it yet.
        let guarded = unsafe { mprotect(base, GUARD_BYTES, MprotectFlags::empty()) };
        guarded.unwrap_or_else(|error| panic!("cannot protect the end of a stack: {error}"));
        stack.use_small_pages();
        stack
    }

    /// Calls `work` on this stack, and returns its result or its panic.
    pub(super) fn call<R>(&mut self, work: impl FnOnce() -> R) -> Result<R> {
        let work = || catch_unwind(AssertUnwindSafe(work));
        // SAFETY: the range is mapped for reading and writing but for the guard at its end, its bounds are multiples of
        // the size of a page and less than `isize::MAX`, and `&mut self` says that nothing else runs on it. No panic
        // unwinds beyond the stack, because all are caught.
        unsafe { psm::on_stack(self.base.cast(), STACK_BYTES, work) }
    }

    /// Gives the pages back that are seldom used. The stack must not be in use, which `&mut self` says.
    pub(super) fn trim(&mut self) {
        let bytes = STACK_BYTES - GUARD_BYTES - BUSY_BYTES;
        // SAFETY: the range is within the mapping, below all that the next call touches first. Nothing is stored on a
        // stack that is not in use, so that its content may be lost.
        let trimmed = unsafe { madvise(self.base.byte_add(GUARD_BYTES), bytes, DISCARD) };
        // It is advice: without it the pages stay.
        let _is_taken = trimmed.is_ok();
    }

    /// A huge page would take 2 MiB for the first kilobytes.
    #[cfg(target_os = "linux")]
    fn use_small_pages(&self) {
        // SAFETY: the range is the mapping of this stack; the advice changes no content.
        let advised = unsafe { madvise(self.base, STACK_BYTES, Advice::LinuxNoHugepage) };
        // A kernel without huge pages does not know it.
        let _is_taken = advised.is_ok();
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
        // SAFETY: the mapping is that of `new`, nothing runs on it any more, and nothing can refer to what was on it.
        let unmapped = unsafe { munmap(self.base, STACK_BYTES) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

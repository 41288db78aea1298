//! An in-memory disk for tests that loses unsynced data, fills up and stops.
//!
//! It guarantees what a real disk guarantees: after a crash every file has its last synced content, any subset of the
//! pages written since, and the directory any prefix of the changes since its last sync.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::Rng;

use super::files::{File, Files};

const PAGE: usize = 4096;

/// A disk controlled by a test. Clones share the disk.
#[derive(Clone, Default)]
pub struct FakeDisk(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Inodes by name, as processes see them.
    names: BTreeMap<String, u64>,
    /// Inodes by name as of the last directory sync, and the changes since.
    durable_names: BTreeMap<String, u64>,
    name_changes: Vec<NameChange>,
    contents: BTreeMap<u64, Contents>,
    next_inode: u64,
    capacity: Option<usize>,
    operations: u64,
    stop_after: Option<u64>,
    fail_syncs: bool,
}

#[derive(Clone)]
enum NameChange {
    Set(String, u64),
    Remove(String),
}

#[derive(Clone, Default)]
struct Contents {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Pages written since the last sync.
    dirty: BTreeSet<usize>,
}

impl FakeDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as a directory for the engine.
    pub fn files(&self) -> Arc<dyn Files> {
        Arc::new(self.clone())
    }

    /// Number of writes, syncs and directory changes so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// Makes every operation after the next `operations` fail, as if the machine had stopped.
    pub fn stop_after(&self, operations: u64) {
        let mut state = self.lock();
        state.stop_after = Some(state.operations + operations);
    }

    /// Makes writes fail that would need more than this many bytes in total; `None` for no limit.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.lock().capacity = bytes;
    }

    /// Makes syncs fail.
    pub fn fail_syncs(&self, fail: bool) {
        self.lock().fail_syncs = fail;
    }

    /// The disk as another process finds it after the machine stops now.
    pub fn crash(&self, rng: &mut Rng) -> FakeDisk {
        let state = self.lock();
        let mut names = state.durable_names.clone();
        let survive = rng.below(state.name_changes.len() as u64 + 1) as usize;
        for change in &state.name_changes[..survive] {
            apply(&mut names, change);
        }
        let contents =
            state.contents.iter().map(|(inode, contents)| (*inode, contents.after_crash(rng))).collect();
        let after = State {
            durable_names: names.clone(),
            names,
            contents,
            next_inode: state.next_inode,
            ..State::default()
        };
        FakeDisk(Arc::new(Mutex::new(after)))
    }

    /// The bytes of a file, for inspection by a test.
    pub fn read(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.contents[&state.names[name]].now.clone()
    }

    /// Replaces the content of a file without the engine's knowledge.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock();
        let inode = state.names[name];
        state.contents.insert(inode, Contents { durable: bytes.clone(), now: bytes, dirty: BTreeSet::new() });
    }

    /// An independent disk with the same contents.
    pub fn copy(&self) -> FakeDisk {
        let state = self.lock();
        let names = state.names.clone();
        let copy = State {
            durable_names: names.clone(),
            names,
            contents: state.contents.clone(),
            next_inode: state.next_inode,
            ..State::default()
        };
        FakeDisk(Arc::new(Mutex::new(copy)))
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: &NameChange) {
    match change {
        NameChange::Set(name, inode) => {
            names.retain(|_, other| other != inode);
            names.insert(name.clone(), *inode);
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

impl Contents {
    fn after_crash(&self, rng: &mut Rng) -> Contents {
        let mut kept = self.durable.clone();
        for page in &self.dirty {
            if rng.one_in(2) {
                continue;
            }
            let start = page * PAGE;
            let end = (start + PAGE).min(self.now.len());
            if kept.len() < end {
                kept.resize(end, 0);
            }
            kept[start..end].copy_from_slice(&self.now[start..end]);
        }
        Contents { now: kept.clone(), durable: kept, dirty: BTreeSet::new() }
    }
}

impl State {
    fn operate(&mut self) -> io::Result<()> {
        if self.stop_after.is_some_and(|stop| self.operations >= stop) {
            return Err(io::Error::other("the machine has stopped"));
        }
        self.operations += 1;
        Ok(())
    }

    fn used(&self) -> usize {
        self.names.values().map(|inode| self.contents[inode].now.len()).sum()
    }

    fn change_name(&mut self, change: NameChange) {
        apply(&mut self.names, &change);
        self.name_changes.push(change);
    }

    fn inode(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for FakeDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let inode = self.lock().inode(name)?;
        Ok(Arc::new(FakeFile { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.operate()?;
        let inode = state.next_inode;
        state.next_inode += 1;
        state.contents.insert(inode, Contents::default());
        state.change_name(NameChange::Set(name.into(), inode));
        Ok(Arc::new(FakeFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.operate()?;
        let inode = state.inode(from)?;
        state.change_name(NameChange::Set(to.into(), inode));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.operate()?;
        state.inode(name)?;
        state.change_name(NameChange::Remove(name.into()));
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.operate()?;
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("fake").join(name)
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        let state = self.lock();
        Ok(state.contents[&state.inode(name)?].now.len() as u64)
    }

    fn unlock(&self) {}
}

struct FakeFile {
    disk: FakeDisk,
    inode: u64,
}

impl File for FakeFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.lock();
        let bytes = &state.contents[&self.inode].now;
        let start = (offset as usize).min(bytes.len());
        let len = buffer.len().min(bytes.len() - start);
        buffer[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.operate()?;
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let grows_by = end.saturating_sub(state.contents[&self.inode].now.len());
        if state.capacity.is_some_and(|capacity| state.used() + grows_by > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let contents = state.contents.get_mut(&self.inode).expect("an open file exists");
        contents.now.resize(contents.now.len().max(end), 0);
        contents.now[start..end].copy_from_slice(bytes);
        contents.dirty.extend(start / PAGE..end.div_ceil(PAGE));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.operate()?;
        if state.fail_syncs {
            return Err(io::Error::other("the disk has failed"));
        }
        let contents = state.contents.get_mut(&self.inode).expect("an open file exists");
        contents.durable = contents.now.clone();
        contents.dirty.clear();
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.lock().contents[&self.inode].now.len() as u64)
    }
}

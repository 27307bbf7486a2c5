//! A folder on a disk that loses power: synced data remains, all other data may be lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The one disk of this process.
static DISK: Mutex<Option<Disk>> = Mutex::new(None);

/// A kind of sync: the caller, and the file or folder.
pub type SyncPoint = String;

/// When a sync fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// The host is killed before this sync.
    pub kill_before: Option<u64>,
    /// The power is lost before this sync.
    pub cut_before: u64,
}

/// A file or a folder. The disk is in memory (tmpfs), which does not reuse inode numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Inode {
    number: u64,
    is_folder: bool,
}

struct Disk {
    root: PathBuf,
    /// Syncs of this kind do nothing.
    skipped: Option<SyncPoint>,
    /// What each folder durably names.
    folders: HashMap<u64, BTreeMap<OsString, Inode>>,
    /// What each file durably holds.
    files: HashMap<u64, Vec<u8>>,
    plan: Plan,
    /// Syncs so far.
    syncs: u64,
    powered: bool,
    killed: bool,
    seen: BTreeSet<SyncPoint>,
}

fn disk() -> MutexGuard<'static, Option<Disk>> {
    DISK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts watching a folder. All of its current content is durable.
pub fn watch(root: &Path, plan: Plan, skipped: Option<&str>) -> io::Result<()> {
    let mut watched = Disk {
        root: root.to_owned(),
        skipped: skipped.map(str::to_owned),
        folders: HashMap::new(),
        files: HashMap::new(),
        plan,
        syncs: 0,
        powered: true,
        killed: false,
        seen: BTreeSet::new(),
    };
    watched.take_all(root)?;
    *disk() = Some(watched);
    Ok(())
}

/// Stops watching; returns the kinds of syncs that were seen.
pub fn unwatch() -> BTreeSet<SyncPoint> {
    disk().take().map(|disk| disk.seen).unwrap_or_default()
}

/// Whether the power is on.
pub fn is_powered() -> bool {
    disk().as_ref().is_some_and(|disk| disk.powered)
}

/// Makes the names in a folder durable, by a sync of the user that does not count.
pub fn make_durable(folder: &Path) -> io::Result<()> {
    if let Some(disk) = disk().as_mut() {
        disk.folders
            .insert(fs::metadata(folder)?.ino(), entries(folder)?);
    }
    Ok(())
}

/// The number of syncs so far.
pub fn syncs() -> u64 {
    disk().as_ref().map_or(0, |disk| disk.syncs)
}

/// Whether the host was killed since the last call.
pub fn was_killed() -> bool {
    disk()
        .as_mut()
        .is_some_and(|disk| std::mem::take(&mut disk.killed))
}

/// Loses the power now, unless it is lost already, and leaves in the folder what is on the disk.
///
/// `choose` returns a number below its argument. It decides what is left of unsynced changes; if it
/// always returns 0, nothing is left.
pub fn lose(choose: &mut dyn FnMut(usize) -> usize) -> io::Result<()> {
    let mut disk = disk();
    let Some(disk) = disk.as_mut() else {
        return Ok(());
    };
    disk.powered = false;
    let root = disk.root.clone();
    let image = root.with_extension("image");
    let number = fs::metadata(&root)?.ino();
    disk.write_folder(number, Some(&root), &image, choose)?;
    fs::remove_dir_all(&root)?;
    fs::rename(&image, &root)
}

/// Syncs a file or a folder of the disk; `None` if it is not on this disk.
pub fn sync(file: i32) -> Option<Result<(), Errno>> {
    let path = fs::read_link(format!("/proc/self/fd/{file}")).ok()?;
    let mut disk = disk();
    let disk = disk.as_mut()?;
    let name = path.strip_prefix(&disk.root).ok()?.to_owned();
    Some(disk.sync(&path, &name).map_err(|_| Errno::IO))
}

impl Disk {
    fn sync(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        if !self.powered {
            return Err(io::ErrorKind::Other.into());
        }
        let number = self.syncs;
        self.syncs += 1;
        if number >= self.plan.cut_before {
            self.powered = false;
            return Err(io::ErrorKind::Other.into());
        }
        if self.plan.kill_before == Some(number) {
            self.killed = true;
            return Err(io::ErrorKind::Other.into());
        }
        let point = point(name, path.is_dir());
        let is_skipped = self.skipped.as_ref() == Some(&point);
        self.seen.insert(point);
        if is_skipped {
            return Ok(());
        }
        let found = match fs::metadata(path) {
            // Removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        if found.is_dir() {
            self.folders.insert(found.ino(), entries(path)?);
        } else {
            self.files.insert(found.ino(), fs::read(path)?);
        }
        Ok(())
    }

    fn take_all(&mut self, folder: &Path) -> io::Result<()> {
        let names = entries(folder)?;
        for (name, inode) in &names {
            let path = folder.join(name);
            if inode.is_folder {
                self.take_all(&path)?;
            } else {
                self.files.insert(inode.number, fs::read(&path)?);
            }
        }
        self.folders.insert(fs::metadata(folder)?.ino(), names);
        Ok(())
    }

    /// Writes what is left of a folder: for each name with an unsynced change, the state before or
    /// after the change.
    fn write_folder(
        &self,
        number: u64,
        now: Option<&Path>,
        to: &Path,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> io::Result<()> {
        fs::create_dir(to)?;
        let durable = self.folders.get(&number).cloned().unwrap_or_default();
        let current = now.map_or_else(|| Ok(durable.clone()), entries)?;
        // A disk may also keep all changes, or none.
        let keeps = choose(3);
        let names: BTreeSet<&OsString> = durable.keys().chain(current.keys()).collect();
        for name in names {
            let (before, after) = (durable.get(name), current.get(name));
            let is_new = match keeps {
                0 => false,
                1 => true,
                _ => choose(2) == 1,
            };
            let left = if is_new { after } else { before };
            let Some(inode) = left else { continue };
            let now = now
                .map(|folder| folder.join(name))
                .filter(|_| after == Some(inode));
            let to = to.join(name);
            if inode.is_folder {
                self.write_folder(inode.number, now.as_deref(), &to, choose)?;
            } else {
                fs::write(&to, self.content(inode.number, now.as_deref(), choose)?)?;
            }
        }
        Ok(())
    }

    /// What is left of a file: its synced content, and any prefix of what was appended later. Of a
    /// file that was rewritten, any prefix of the new content.
    fn content(
        &self,
        number: u64,
        now: Option<&Path>,
        choose: &mut dyn FnMut(usize) -> usize,
    ) -> io::Result<Vec<u8>> {
        let synced = self.files.get(&number).cloned().unwrap_or_default();
        let Some(now) = now else { return Ok(synced) };
        let mut bytes = fs::read(now)?;
        let first = if bytes.starts_with(&synced) {
            synced.len()
        } else {
            0
        };
        bytes.truncate(match choose(3) {
            0 => first,
            1 => bytes.len(),
            _ => first + choose(bytes.len() - first + 1),
        });
        Ok(bytes)
    }
}

fn entries(folder: &Path) -> io::Result<BTreeMap<OsString, Inode>> {
    let mut names = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another thread may remove it meanwhile.
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let inode = Inode {
            number: found.ino(),
            is_folder: found.is_dir(),
        };
        names.insert(entry.file_name(), inode);
    }
    Ok(names)
}

/// Returns the kind of a sync: by the object store client (its threads have a name) or by the host
/// itself, of a file or a folder.
fn point(name: &Path, is_folder: bool) -> SyncPoint {
    let by = match thread::current().name() {
        Some("holdfast-root") => "client",
        _ => "host",
    };
    let mut parts: Vec<&str> = name
        .iter()
        .map(|part| part.to_str().unwrap_or_default())
        .map(|part| part.split('#').next().unwrap_or(part))
        .map(|part| match part.parse::<u64>() {
            Ok(_) => "N",
            Err(_) => part,
        })
        .collect();
    // The watched folder has the root.
    let top = parts.get(1).copied().unwrap_or_default();
    if !is_folder && let Some(file) = parts.pop() {
        parts.push(match top {
            "log" if file.starts_with("decided") => "decided",
            "runs" | "log" | "owners" | "snapshots" | "trims" | "ahead" | "readers" => "*",
            // Each root has a random name of its own.
            _ if file.starts_with("probe-") => "probe-*",
            _ => file,
        });
    }
    let kind = if is_folder { "folder" } else { "file" };
    format!("{by}: {kind} {}", parts.join("/"))
}

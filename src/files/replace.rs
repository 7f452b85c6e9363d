//! Replaces a file as a whole or not at all.
//!
//! Contents go to a new file `NAME.<16 letters and digits>.part` in the same folder, which is synced to disk and then
//! renamed over the target; finally the folder is synced. Every writer has a file of its own, so readers see the old
//! contents or the new ones, regardless of concurrent writers. After a failure or a cancellation the `.part` file is
//! removed. Only a process that is killed leaves one behind: it is never read, and saving to the same path removes
//! those older than a day.
//!
//! A symbolic link stays, and its target is replaced. The new file gets the permissions of an existing one.

use super::failed;
use crate::error::{Error, Result};
use crate::observer::Observer;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempPath;

/// Maximum number of unsynced bytes, which bounds the last, uninterruptible sync.
const UNSYNCED: usize = 64 << 20;
/// Maximum number of links that are followed, as in Linux.
const MOST_LINKS: usize = 40;
/// The end of the name of a `.part` file: this many random letters and digits, then this suffix.
const UNIQUE: usize = 16;
const ENDING: &str = ".part";
/// Age from which a `.part` file is considered a leftover.
const STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// The final system calls; tests make them fail.
pub(super) trait Disk {
    /// Waits until the contents are on disk.
    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }
    /// Renames the file, replacing an existing one.
    fn put(&self, part: TempPath, target: &Path) -> io::Result<()> {
        part.persist(target).map_err(|failure| failure.error)
    }
    /// Waits until the new name is on disk, if the system supports that.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
        if cfg!(not(unix)) {
            return Ok(());
        }
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // A folder that is writable but not readable, or a file system that does not sync folders.
            Err(reason) if matches!(reason.kind(), InvalidInput | PermissionDenied | Unsupported) => Ok(()),
            outcome => outcome,
        }
    }
}

/// The actual system.
pub(super) struct System;
impl Disk for System {}

/// Receives the contents of the new file.
pub(super) struct Sink<'a> {
    file: File,
    path: &'a Path,
    unsynced: usize,
    disk: &'a dyn Disk,
    observer: &'a dyn Observer,
}

impl Sink<'_> {
    /// Adds bytes, unless the observer has cancelled.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        check(self.observer)?;
        self.file.write_all(bytes).map_err(|reason| failed(self.path, reason))?;
        self.unsynced += bytes.len();
        if self.unsynced >= UNSYNCED { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced = 0;
        self.disk.sync(&self.file).map_err(|reason| failed(self.path, reason))
    }
}

/// Fails if the observer has cancelled.
pub(super) fn check(observer: &dyn Observer) -> Result<()> {
    if observer.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}

/// Replaces the file at `path` by what `write` adds.
pub(super) fn replace(
    path: &Path,
    observer: &dyn Observer,
    disk: &dyn Disk,
    write: impl FnOnce(&mut Sink<'_>) -> Result<()>,
) -> Result<()> {
    let failed = |reason| failed(path, reason);
    let target = followed(path).map_err(failed)?;
    let before = existing(&target).map_err(failed)?;
    let folder = parent(&target);
    let prefix = prefix(&target).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let (file, part) = create(folder, &prefix).map_err(failed)?;
    // Before any contents are written, so that a private file is private from the start.
    if let Some(permissions) = before.filter(|wanted| file.metadata().is_ok_and(|has| has.permissions() != *wanted)) {
        file.set_permissions(permissions).map_err(failed)?;
    }
    let mut sink = Sink { file, path, unsynced: 0, disk, observer };
    write(&mut sink)?;
    sink.sync()?;
    check(observer)?;
    // Closed, because some systems do not rename open files.
    drop(sink);
    disk.put(part, &target).map_err(failed)?;
    disk.sync_folder(folder).map_err(failed)?;
    remove_stale(folder, &prefix);
    Ok(())
}

/// A new file in the folder, with the process's default permissions, which is removed when dropped.
fn create(folder: &Path, prefix: &OsStr) -> io::Result<(File, TempPath)> {
    let new = |path: &Path| File::options().write(true).create_new(true).open(path);
    let mut builder = tempfile::Builder::new();
    Ok(builder.prefix(prefix).suffix(ENDING).rand_bytes(UNIQUE).make_in(folder, new)?.into_parts())
}

/// Where a path leads through symbolic links, even to a file that does not exist yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_symlink() => target = parent(&target).join(fs::read_link(&target)?),
            _ => return Ok(target),
        }
    }
    // Get the error of the system.
    fs::metadata(path).map(|_| target)
}

/// The permissions of the file to be replaced, if it exists; only regular files are replaced.
fn existing(target: &Path) -> io::Result<Option<fs::Permissions>> {
    match fs::metadata(target) {
        Ok(found) if found.is_file() => Ok(Some(found.permissions())),
        Ok(found) if found.is_dir() => {
            // Get the error of the system.
            Err(File::options().write(true).open(target).err().unwrap_or_else(|| io::ErrorKind::IsADirectory.into()))
        }
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(reason),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The prefix of the names of the target's `.part` files: its own name, unless it is too long to be extended.
fn prefix(target: &Path) -> Option<OsString> {
    let mut name = target.file_name()?.to_owned();
    if name.len() > 200 {
        name = name.to_string_lossy().chars().take(50).collect::<String>().into();
    }
    name.push(".");
    Some(name)
}

/// Removes leftovers of killed processes; what cannot be removed stays.
fn remove_stale(folder: &Path, prefix: &OsStr) {
    let stale = |entry: &fs::DirEntry| {
        is_part(&entry.file_name(), prefix)
            && entry
                .metadata()
                .and_then(|found| found.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE))
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(stale) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Whether a file of this name was made by [`create`].
fn is_part(name: &OsStr, prefix: &OsStr) -> bool {
    let rest = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    let unique = rest.and_then(|rest| rest.strip_suffix(ENDING.as_bytes()));
    unique.is_some_and(|unique| unique.len() == UNIQUE && unique.iter().all(u8::is_ascii_alphanumeric))
}

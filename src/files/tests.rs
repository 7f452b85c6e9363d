//! What happens to a file when the system fails or the caller cancels.

use super::format::write_to;
use super::replace::{Disk, System};
use super::*;
use crate::observer::Observer;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::{TempDir, TempPath};

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("model.safetensors");
    (folder, path)
}

fn zeros(n: usize) -> Contents<'static> {
    let tensor = Tensor::new(vec![n], Values::F32(vec![0.0; n].into())).unwrap();
    Contents { metadata: Default::default(), tensors: [("zeros".to_owned(), tensor)].into() }
}

fn names(folder: &TempDir) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
}

/// A disk that records the calls, and fails at one of them.
#[derive(Default)]
struct Noting {
    asked: Mutex<Vec<&'static str>>,
    fails_at: &'static str,
}

impl Noting {
    fn note(&self, what: &'static str) -> io::Result<()> {
        self.asked.lock().unwrap().push(what);
        if what == self.fails_at { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
    }
}

impl Disk for Noting {
    fn sync(&self, file: &File) -> io::Result<()> {
        self.note("sync").and_then(|()| System.sync(file))
    }
    fn put(&self, part: TempPath, target: &Path) -> io::Result<()> {
        self.note("put").and_then(|()| System.put(part, target))
    }
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.note("sync_folder").and_then(|()| System.sync_folder(folder))
    }
}

#[test]
fn contents_are_synced_before_the_rename_and_the_folder_after() {
    let (_folder, path) = folder();
    let disk = Noting::default();
    write_to(&path, &zeros(3), &Silent, &disk).unwrap();
    assert_eq!(*disk.asked.lock().unwrap(), ["sync", "put", "sync_folder"]);
}

#[test]
fn a_failure_of_the_system_keeps_the_old_file_and_leaves_nothing_else() {
    for fails_at in ["sync", "put"] {
        let (folder, path) = folder();
        write(&path, &zeros(3), &Silent).unwrap();
        let before = fs::read(&path).unwrap();
        let failure = write_to(&path, &zeros(4), &Silent, &Noting { fails_at, ..Noting::default() }).unwrap_err();
        assert!(matches!(&failure, Error::File { source, .. } if source.raw_os_error() == Some(28)), "{failure}");
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(names(&folder), [Path::new("model.safetensors")]);
    }
}

/// Cancels at the n-th query.
struct After(AtomicUsize);

impl Observer for After {
    fn cancelled(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0
    }
}

#[test]
fn saving_and_loading_can_be_cancelled_at_every_megabyte() {
    let (folder, path) = folder();
    let contents = zeros(1 << 20);
    for n in 0..11 {
        let cancelled = write(&path, &contents, &After(n.into())).unwrap_err();
        assert_eq!(cancelled, Error::Cancelled, "{n}");
        assert!(names(&folder).is_empty(), "{n}");
    }
    write(&path, &contents, &After(11.into())).unwrap();
    for n in 0..6 {
        assert_eq!(read(&path, &After(n.into())).unwrap_err(), Error::Cancelled, "{n}");
    }
    assert_eq!(read(&path, &After(6.into())).unwrap().tensors, contents.tensors);
}

#[test]
fn the_same_contents_give_the_same_bytes() {
    let (_folder, path) = folder();
    let mut contents = zeros(5);
    contents.metadata = ('a'..='z').map(|c| (c.to_string(), "x".to_owned())).collect();
    write(&path, &contents, &Silent).unwrap();
    let first = fs::read(&path).unwrap();
    write(&path, &contents, &Silent).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first);
}

#[test]
fn concurrent_writers_leave_whole_files_to_readers() {
    let (folder, path) = folder();
    write(&path, &zeros(1), &Silent).unwrap();
    std::thread::scope(|scope| {
        for n in [10, 1000, 300_000] {
            let path = &path;
            scope.spawn(move || (0..20).for_each(|_| write(path, &zeros(n), &Silent).unwrap()));
        }
        for _ in 0..2 {
            scope.spawn(|| (0..40).for_each(|_| drop(read(&path, &Silent).unwrap())));
        }
    });
    assert_eq!(names(&folder), [Path::new("model.safetensors")]);
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_the_permissions_of_the_file_behind_it_are_kept() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (folder, path) = folder();
    let link = folder.path().join("latest.safetensors");
    symlink("model.safetensors", &link).unwrap();
    write(&link, &zeros(3), &Silent).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    write(&link, &zeros(4), &Silent).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(read(&path, &Silent).unwrap().tensors, zeros(4).tensors);
}

#[test]
fn a_name_of_maximum_length_can_be_saved() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(format!("{}.safetensors", "é".repeat(120)));
    write(&path, &zeros(3), &Silent).unwrap();
    assert_eq!(names(&folder).len(), 1);
}

//! Replaces files as a whole.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::{Builder, NamedTempFile};

/// Writes `PATH.new` and renames it, so a reader never sees partial content. Does not wait for the
/// disk. On an error the old content stays.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write(path, content)?.persist(path)?;
    Ok(())
}

/// Like [`replace`], but waits until the new content is on disk. After an error the file has the
/// old or the new content.
pub fn replace_on_disk(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = write(path, content)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    File::open(folder(path))?.sync_all()
}

fn write(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    let mut name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    // The name is always the same: a program that dies leaves at most one file, removed here.
    match fs::remove_file(folder(path).join(&name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // The usual mode: others may read the file if the umask allows it.
    let permissions = Permissions::from_mode(0o666);
    let mut new = Builder::new().prefix(&name).rand_bytes(0).permissions(permissions).tempfile_in(folder(path))?;
    new.write_all(content)?;
    Ok(new)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_the_usual_mode_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, usual) = (folder.path().join("a"), folder.path().join("usual"));
        File::create(&usual).unwrap();
        for replace in [replace, replace_on_disk] {
            // Left by a program that died.
            fs::write(folder.path().join("a.new"), "half").unwrap();
            replace(&path, b"first").unwrap();
            replace(&path, b"one").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "one");
            let mode = |path| fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(&path), mode(&usual));
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_the_content_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        fs::create_dir(folder.path().join("a.new")).unwrap();
        for replace in [replace, replace_on_disk] {
            assert!(replace(&path, b"after").is_err() && replace(&folder.path().join("no/a"), b"after").is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        }
    }
}

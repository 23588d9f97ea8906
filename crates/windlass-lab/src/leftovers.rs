//! What killed runs left behind.

use crate::{
    cgroup, files,
    netns::{FOLDERS, RUN, remove},
    owner::left_in,
};
use std::{fs, path::Path};

/// Removes namespaces, folders, cgroups and half-made files whose maker is gone; returns how many.
pub fn clean_leftovers() -> usize {
    let mut removed = 0;
    for folder in [RUN, FOLDERS] {
        for name in left_in(Path::new(folder)) {
            remove(&name);
            removed += 1;
        }
    }
    // after the namespaces, with which the processes end that are in them
    let cgroups = cgroup::root();
    for name in cgroups.iter().flat_map(|root| left_in(root)) {
        removed += usize::from(cgroups.iter().all(|root| cgroup::remove(&root.join(&name))));
    }
    let files = files::folder();
    removed + left_in(&files).iter().filter(|name| fs::remove_file(files.join(name)).is_ok()).count()
}

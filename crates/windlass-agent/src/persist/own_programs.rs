//! The datapath's programs that are pinned beside its maps: whichever process loaded them, another one attaches them to further
//! interfaces, or puts them in the place of another build's.

use crate::{
    Result,
    attach::{FROM_SENDER, TO_SENDER},
    clock,
    error::{bpf, io_error},
    object::{pin, pinned, program},
    persist::released_iface,
    shared_groups,
};
use libbpf_rs::Object;
use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

const NAMES: [&str; 5] =
    [FROM_SENDER, TO_SENDER, clock::PROGRAM, shared_groups::PART, released_iface::END_FLOWS];

/// All of them, loaded.
#[derive(Debug)]
pub(crate) struct OwnPrograms(BTreeMap<&'static str, OwnedFd>);

impl OwnPrograms {
    /// Those of an object.
    pub(crate) fn of_object(object: &Object) -> Result<OwnPrograms> {
        let of = |name| {
            let fd = program(object, name).as_fd().try_clone_to_owned();
            Ok((name, fd.map_err(|why| bpf(format!("keeping {name}"))(why.into()))?))
        };
        NAMES.into_iter().map(of).collect::<Result<_>>().map(OwnPrograms)
    }

    /// Those that are pinned in that folder.
    pub(crate) fn pinned_in(dir: &Path) -> Result<OwnPrograms> {
        let of = |name| Ok((name, pinned(&dir.join(name))?));
        NAMES.into_iter().map(of).collect::<Result<_>>().map(OwnPrograms)
    }

    pub(crate) fn get(&self, name: &str) -> BorrowedFd<'_> {
        self.0[name].as_fd()
    }

    /// Pins them in that folder, in the place of others that there may be.
    pub(crate) fn pin_in(&self, dir: &Path) -> Result<()> {
        for (name, program) in &self.0 {
            let (at, draft) = (dir.join(name), dir.join(format!("{name}:new")));
            // of a process that was killed here
            let _ = fs::remove_file(&draft);
            pin(program.as_fd(), &draft)?;
            fs::rename(&draft, &at).map_err(io_error(&at))?;
        }
        Ok(())
    }
}

//! Programs and links of other processes.

use crate::{
    Result,
    error::{bpf, io_error},
    libbpf_words::silence_libbpf,
};
use libbpf_rs::{Iter, Link, ObjectBuilder, query::ProgInfoIter};
use std::{cell::OnceCell, collections::BTreeSet, io::Read, path::Path};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bpf.o"));

/// Has one of the programs with these ids that name?
///
/// # Errors
/// The kernel does not list them to this process.
pub(crate) fn is_any_called(ids: &[u32], name: &str) -> Result<bool> {
    if ids.is_empty() {
        return Ok(false);
    }
    // takes CAP_SYS_ADMIN: without it there seem to be no programs
    let mut programs = ProgInfoIter::default().peekable();
    if programs.peek().is_some() {
        return Ok(programs.any(|p| ids.contains(&p.id) && p.name.to_string_lossy() == name));
    }
    Ok(is_listed(&read(&listing("wl_names")?)?, ids, name))
}

/// Is one of these ids in the list, with that name?
fn is_listed(list: &str, ids: &[u32], name: &str) -> bool {
    list.lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(id, of)| of == name && id.parse().is_ok_and(|id| ids.contains(&id)))
}

thread_local! {
    /// Lists links. An agent looks twice a second: loading the program each time would take a processor's time.
    static LINKS: OnceCell<Link> = const { OnceCell::new() };
}

/// Ids of all links.
pub(crate) fn links() -> Result<BTreeSet<u32>> {
    LINKS.with(|kept| {
        if kept.get().is_none() {
            let _ = kept.set(listing("wl_links")?);
        }
        let list = read(kept.get().expect("it was just set"))?;
        Ok(list.lines().filter_map(|line| line.parse().ok()).collect())
    })
}

/// Loads the program of that name in `bpf/names.bpf.c`, ready to list.
fn listing(name: &str) -> Result<Link> {
    silence_libbpf();
    let object =
        ObjectBuilder::default().open_memory(OBJECT).and_then(|open| open.load()).map_err(bpf(WHAT))?;
    let program = object.progs_mut().find(|p| p.name() == name).expect("a program of our own");
    program.attach().map_err(bpf(WHAT))
}

/// What it lists now.
fn read(listing: &Link) -> Result<String> {
    let mut list = String::new();
    let read = Iter::new(listing).map_err(bpf(WHAT))?.read_to_string(&mut list);
    read.map_err(io_error(Path::new(WHAT)))?;
    Ok(list)
}

const WHAT: &str = "listing programs and links";

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        thread,
        time::{Duration, Instant},
    };

    #[test]
    fn programs_are_found_by_id_and_whole_name() {
        let list = "1 wl_select\n12 wl_select_x\n3 a b\n";
        assert!(is_listed(list, &[7, 1], "wl_select"));
        assert!(!is_listed(list, &[2, 12], "wl_select"));
        assert!(is_listed(list, &[3], "a b"));
    }

    /// An agent without CAP_SYS_ADMIN sees as much as one that has it.
    #[test]
    fn the_list_without_capabilities_is_the_one_with_them() {
        if !crate::is_root() {
            println!("skipped: the_list_without_capabilities_is_the_one_with_them: needs root");
            return;
        }
        // programs of others come and go meanwhile: this one stays
        let object = ObjectBuilder::default().open_memory(OBJECT).unwrap().load().unwrap();
        let id = libbpf_rs::query::ProgInfoIter::default()
            .filter(|p| p.name.to_string_lossy() == "wl_names")
            .map(|p| p.id)
            .max()
            .expect("it is loaded");
        assert!(is_listed(&read(&listing("wl_names").unwrap()).unwrap(), &[id], "wl_names"));
        let program = object.progs_mut().find(|p| p.name() == "wl_names").unwrap();
        let link = program.attach().unwrap();
        let id = link.info().unwrap().id;
        assert!(links().unwrap().contains(&id));
        drop(link);
        // a test beside this one that begins a process has given it, for a moment, all descriptors
        let begun = Instant::now();
        while links().unwrap().contains(&id) {
            assert!(begun.elapsed() < Duration::from_secs(10), "still listed");
            thread::yield_now();
        }
    }
}

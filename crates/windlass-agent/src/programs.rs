//! Names of programs that other processes have loaded.

use crate::{
    Result,
    error::{bpf, io_error},
};
use libbpf_rs::{Iter, ObjectBuilder, PrintLevel, query::ProgInfoIter};
use std::{io::Read, path::Path};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/names.bpf.o"));

/// Has one of the programs with these ids that name? Where the kernel does not tell, none has.
pub(crate) fn is_any_called(ids: &[u32], name: &str) -> bool {
    if ids.is_empty() {
        return false;
    }
    // takes CAP_SYS_ADMIN: without it there seem to be no programs
    let mut programs = ProgInfoIter::default().peekable();
    if programs.peek().is_some() {
        return programs.any(|p| ids.contains(&p.id) && p.name.to_string_lossy() == name);
    }
    list().is_ok_and(|list| is_listed(&list, ids, name))
}

/// Is one of these ids in the list, with that name?
fn is_listed(list: &str, ids: &[u32], name: &str) -> bool {
    list.lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(id, of)| of == name && id.parse().is_ok_and(|id| ids.contains(&id)))
}

/// Ids and names of all programs, as `bpf/names.bpf.c` lists them.
fn list() -> Result<String> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    let what = "listing programs";
    let object =
        ObjectBuilder::default().open_memory(OBJECT).and_then(|open| open.load()).map_err(bpf(what))?;
    let program = object.progs_mut().next().expect("a program of our own");
    let link = program.attach().map_err(bpf(what))?;
    let mut list = String::new();
    let read = Iter::new(&link).map_err(bpf(what))?.read_to_string(&mut list);
    read.map_err(io_error(Path::new("list of programs")))?;
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(is_listed(&list().unwrap(), &[id], "wl_names"));
        drop(object);
    }
}

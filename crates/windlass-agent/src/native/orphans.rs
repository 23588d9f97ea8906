//! Congestion controls whose loader is gone. Before Linux 6.4 there are no links for them: what a killed process had
//! registered stays registered, under a name that no other can have.

use crate::{Result, error::bpf};
use libbpf_rs::{
    MapCore, MapFlags, MapHandle, MapType,
    btf::{
        Btf,
        types::{self, MemberAttr},
    },
    query::MapInfoIter,
};
use std::{fs, path::Path};

/// Where in the value of such a map the name is; none: not in this kernel.
fn name_offset() -> Option<usize> {
    let btf = Btf::from_vmlinux().ok()?;
    let offset =
        |of: types::Struct, member: &str| match of.iter().find(|m| m.name.is_some_and(|n| n == member))?.attr
        {
            MemberAttr::Normal { offset } => Some(offset as usize / 8),
            MemberAttr::BitField { .. } => None,
        };
    let data = offset(btf.type_by_name("bpf_struct_ops_tcp_congestion_ops")?, "data")?;
    Some(data + offset(btf.type_by_name("tcp_congestion_ops")?, "name")?)
}

/// Whether any process has the map open, as its loader has for as long as it lives.
fn is_open(map_id: u32) -> bool {
    let line = format!("map_id:\t{map_id}");
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    entries(Path::new("/proc"))
        .flat_map(|process| entries(&process.path().join("fdinfo")))
        // what ends meanwhile has nothing open
        .filter_map(|fd| fs::read_to_string(fd.path()).ok())
        .any(|info| info.lines().any(|l| l == line))
}

/// Unregisters the congestion control of that name if no process has it open any more; returns whether there was one.
/// One that is pinned is open to the process that pinned it: that is for the caller to know. Sockets that use it keep it.
pub(crate) fn unregister(name: &str) -> Result<bool> {
    let Some(at) = name_offset() else { return Ok(false) };
    let wanted = format!("{name}\0");
    let ids: Vec<u32> = MapInfoIter::default().filter(|m| m.ty == MapType::StructOps).map(|m| m.id).collect();
    for id in ids.into_iter().filter(|id| !is_open(*id)) {
        // it may have gone since
        let Ok(map) = MapHandle::from_map_id(id) else { continue };
        let key = 0u32.to_ne_bytes();
        let value = map.lookup(&key, MapFlags::ANY).map_err(bpf("reading a congestion control"))?;
        let is_it = value.is_some_and(|v| v.get(at..).is_some_and(|v| v.starts_with(wanted.as_bytes())));
        // an error: it is unregistered already, and only sockets have it
        if is_it && map.delete(&key).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

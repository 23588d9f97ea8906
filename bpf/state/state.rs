//! What a datapath's state looks like, as text: of what BTF records of `state.bpf.c`, that which a program must know
//! to go on with maps that another one wrote. Build scripts include it with `#[path]`.
//!
//! Neither code nor the names of files are in it, nor the order in which a compiler meets types.

use libbpf_rs::btf::{
    Btf, BtfKind, BtfType, HasSize, TypeId,
    types::{Array, Composite, DataSec, Enum, Enum64, Int, IntEncoding, MemberAttr, Var},
};
use std::{collections::BTreeMap, ffi::OsStr, fmt::Write, path::Path};

/// Sections whose variables are state.
const SECTIONS: [&str; 4] = [".maps", ".bss.clock", ".rodata.config", ".state"];
/// Working memory of one packet: each build has its own.
const OWN: &str = "wl_scratch";

/// Describes the state that the object at `path` speaks of: its variables by name, then their types.
pub fn describe(path: &Path) -> String {
    let btf = Btf::from_path(path).unwrap_or_else(|e| panic!("{}: {e:#}", path.display()));
    let mut state = State { btf: &btf, types: BTreeMap::new() };
    let mut variables = BTreeMap::new();
    for section in btf.type_by_kind::<DataSec<'_>>() {
        let name = text(section.name());
        if !SECTIONS.contains(&name.as_str()) {
            continue;
        }
        for variable in section.iter() {
            let variable: Var<'_> = btf.type_by_id(variable.ty).expect("sections have variables");
            let variable_name = text(variable.name());
            if variable_name == OWN {
                continue;
            }
            let ty = variable.next_type().expect("its type");
            let words = if name == ".maps" { state.map(ty) } else { state.name(ty) };
            variables.insert(variable_name, format!("{name} {words}"));
        }
    }
    let mut all = String::new();
    for (name, words) in variables {
        writeln!(all, "{name}: {words}").expect("room");
    }
    for text in state.types.into_values() {
        all += &text;
    }
    all
}

fn text(name: Option<&OsStr>) -> String {
    name.unwrap_or_default().to_string_lossy().into_owned()
}

struct State<'a> {
    btf: &'a Btf<'a>,
    /// Those that have names, by these.
    types: BTreeMap<String, String>,
}

impl<'a> State<'a> {
    fn by_id(&self, id: TypeId) -> BtfType<'a> {
        self.btf.type_by_id(id).expect("the type that another one is made of")
    }

    /// What a map is, as the macros of bpf_helpers.h have it: numbers are lengths of arrays, types what is pointed to, and maps of maps
    /// have an array of pointers to such.
    fn map(&mut self, ty: BtfType<'a>) -> String {
        let members: Vec<_> = Composite::try_from(ty)
            .expect("a map is a struct")
            .iter()
            .map(|m| (text(m.name), m.ty))
            .collect();
        let words = members.into_iter().map(|(name, ty)| {
            if let Ok(maps) = Array::try_from(self.by_id(ty)) {
                let map = maps.contained_type().next_type().expect("pointers to maps");
                return format!("{name} ({})", self.map(map));
            }
            let pointee = self.by_id(ty).next_type().expect("a pointer");
            let what = match Array::try_from(pointee) {
                Ok(array) => array.capacity().to_string(),
                Err(ty) => self.name(ty),
            };
            format!("{name} {what}")
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// What the type is called; those that have members are described, too.
    fn name(&mut self, ty: BtfType<'a>) -> String {
        match ty.kind() {
            BtfKind::Typedef | BtfKind::Const | BtfKind::Volatile => {
                let of = ty.next_type().expect("the type itself");
                self.name(of)
            }
            BtfKind::Ptr => "pointer".into(),
            BtfKind::Int => {
                let int = Int::try_from(ty).expect("its kind");
                let sign = if matches!(int.encoding, IntEncoding::Signed) { 's' } else { 'u' };
                format!("{sign}{}", int.bits)
            }
            BtfKind::Array => {
                let array = Array::try_from(ty).expect("its kind");
                format!("{}[{}]", self.name(array.contained_type()), array.capacity())
            }
            BtfKind::Struct | BtfKind::Union => self.composite(Composite::try_from(ty).expect("its kind")),
            BtfKind::Enum => {
                let all = Enum::try_from(ty).expect("its kind");
                self.enumeration(ty, all.iter().map(|v| (text(v.name), v.value.into())).collect())
            }
            BtfKind::Enum64 => {
                let all = Enum64::try_from(ty).expect("its kind");
                self.enumeration(ty, all.iter().map(|v| (text(v.name), v.value)).collect())
            }
            other => panic!("state has no {other:?}"),
        }
    }

    fn composite(&mut self, ty: Composite<'a>) -> String {
        let kind = if ty.is_struct { "struct" } else { "union" };
        let key = ty.name().map(|name| format!("{kind} {}", text(Some(name))));
        if let Some(key) = key.as_ref().filter(|key| self.types.contains_key(*key)) {
            return key.clone();
        }
        let members: Vec<_> = ty.iter().map(|m| (text(m.name), m.ty, m.attr)).collect();
        let mut lines = format!("{} bytes\n", ty.size());
        for (name, ty, attr) in members {
            let (offset, bits) = match attr {
                MemberAttr::Normal { offset } => (offset, String::new()),
                MemberAttr::BitField { size, offset } => (offset, format!(" : {size}")),
            };
            let words = self.name(self.by_id(ty));
            // of types without names the members follow on the same line
            writeln!(lines, "\t{offset} {name}{bits}: {}", words.trim_end().replace('\n', ";"))
                .expect("room");
        }
        let Some(key) = key else { return format!("{kind} {lines}") };
        self.types.insert(key.clone(), format!("{key} {lines}"));
        key
    }

    fn enumeration(&mut self, ty: BtfType<'a>, values: Vec<(String, i128)>) -> String {
        let key = format!("enum {}", text(ty.name()));
        let lines: String = values.iter().map(|(name, value)| format!("\t{name} = {value}\n")).collect();
        self.types.insert(key.clone(), format!("{key}\n{lines}"));
        key
    }
}

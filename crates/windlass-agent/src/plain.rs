//! Plain data in the values of BPF maps: structs of the core, which have no padding and no pointers.

/// The number at this place of a map's value; 0 beyond its end.
pub(crate) fn u32_at(value: &[u8], at: usize) -> u32 {
    value.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")))
}

/// The number at this place of a map's value; 0 beyond its end.
pub(crate) fn u64_at(value: &[u8], at: usize) -> u64 {
    value.get(at..at + 8).map_or(0, |b| u64::from_ne_bytes(b.try_into().expect("eight bytes")))
}

/// The bytes of a struct of the core.
pub(crate) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: as many bytes as the value has, for as long as it is borrowed.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct of the core, for which any bytes are valid; none: they are too few.
pub(crate) fn from_bytes<T: Copy>(bytes: &[u8]) -> Option<T> {
    // SAFETY: there are enough bytes, and they need not be aligned.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

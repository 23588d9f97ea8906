//! Patterns of interfaces' names, as a shell has them.

/// The length in bytes of the shortest name that a sound pattern matches.
pub(super) fn shortest_match(pattern: &str) -> usize {
    let mut length = 0;
    parts(pattern, |part| match part {
        Part::Fixed(c) => length += c.len_utf8(),
        Part::OneOf => length += 1,
        Part::Any => {}
    });
    length
}

/// The characters that each name has that a sound pattern matches.
pub(super) fn fixed_chars(pattern: &str) -> Vec<char> {
    let mut all = Vec::new();
    parts(pattern, |part| {
        if let Part::Fixed(c) = part {
            all.push(c);
        }
    });
    all
}

/// Does `wide` match, as far as that can be seen of the patterns, each name that `narrow` matches?
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    let is_special = |c: char| matches!(c, '*' | '?' | '[');
    if wide == narrow || wide == "*" {
        return true;
    }
    let begin = &narrow[..narrow.find(is_special).unwrap_or(narrow.len())];
    if begin == narrow {
        return glob::Pattern::new(wide).is_ok_and(|wide| wide.matches(narrow));
    }
    let plain = wide.strip_suffix('*').filter(|plain| !plain.contains(is_special));
    plain.is_some_and(|plain| begin.starts_with(plain))
}

enum Part {
    Fixed(char),
    OneOf,
    Any,
}

fn parts(pattern: &str, mut take: impl FnMut(Part)) {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '*' => take(Part::Any),
            '?' => take(Part::OneOf),
            '[' => {
                // one of those listed, of which the first may be "]"
                if chars.next() == Some('!') {
                    chars.next();
                }
                chars.find(|c| *c == ']');
                take(Part::OneOf);
            }
            _ => take(Part::Fixed(c)),
        }
    }
}

//! The words of a source file's comments, C or Rust.

/// A word in lower case and the line on which it stands.
#[derive(Debug, PartialEq)]
pub struct Word {
    pub text: String,
    pub line: usize,
}

/// The words of the comments of `source`, in order. A word begins with a letter; apostrophes, hyphens and underscores belong to it.
pub fn words(source: &str, is_rust: bool) -> Vec<Word> {
    let mut words = Vec::new();
    let mut line = 1;
    let mut rest = source;
    while !rest.is_empty() {
        let (length, is_comment) = token(rest, is_rust);
        let (text, after) = rest.split_at(length);
        if is_comment {
            for (i, text) in text.split('\n').enumerate() {
                push_words(text, line + i, &mut words);
            }
        }
        line += text.matches('\n').count();
        rest = after;
    }
    words
}

fn push_words(text: &str, line: usize, words: &mut Vec<Word>) {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '-' | '_');
    for text in text.split(|c| !is_part(c)).filter(|text| text.starts_with(char::is_alphabetic)) {
        words.push(Word { text: text.to_lowercase(), line });
    }
}

/// The length of the comment, literal, name or single character that `rest` begins with, and whether it is a comment.
fn token(rest: &str, is_rust: bool) -> (usize, bool) {
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), true);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest, is_rust), true);
    }
    let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    if name > 0 {
        let literal = if is_rust && rest[..name].ends_with('r') { raw_string(&rest[name..]) } else { 0 };
        return (name + literal, false);
    }
    let length = match rest.as_bytes()[0] {
        b'"' => quoted(rest, '"'),
        b'\'' if !is_rust || is_char_literal(rest) => quoted(rest, '\''),
        _ => rest.chars().next().map_or(1, char::len_utf8),
    };
    (length, false)
}

/// Rust's block comments nest, C's do not.
fn block_comment(rest: &str, is_rust: bool) -> usize {
    let (mut depth, mut at) = (1, 2);
    while depth > 0 && at < rest.len() {
        let (step, change) = match &rest.as_bytes()[at..] {
            [b'*', b'/', ..] => (2, -1),
            [b'/', b'*', ..] if is_rust => (2, 1),
            _ => (1, 0),
        };
        at += step;
        depth += change;
    }
    at
}

/// The length of what follows the `r` of a raw string; 0 if it is a raw name, or no literal at all.
fn raw_string(rest: &str) -> usize {
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !rest[hashes..].starts_with('"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    rest[hashes + 1..].find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len())
}

/// A lifetime also begins with an apostrophe, and has none at its end.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    chars.next() == Some('\\') || chars.next() == Some('\'')
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::words;

    fn texts(source: &str, is_rust: bool) -> Vec<(String, usize)> {
        words(source, is_rust).into_iter().map(|word| (word.text, word.line)).collect()
    }

    fn expected(words: &[(&str, usize)]) -> Vec<(String, usize)> {
        words.iter().map(|&(text, line)| (text.to_string(), line)).collect()
    }

    #[test]
    fn words_of_c_comments_have_their_lines() {
        let source = "/* One\n * two-way */\nint a = '\"'; // the peer's\nchar *s = \"/* no */ \\\" // no\"; /* end */\n";
        assert_eq!(
            texts(source, false),
            expected(&[("one", 1), ("two-way", 2), ("the", 3), ("peer's", 3), ("end", 4)])
        );
    }

    #[test]
    fn words_of_rust_comments_skip_strings_and_lifetimes() {
        let source = "//! head\nfn f<'a>(x: &'a str) {} /// doc\nlet s = r#\"// no \" \n\"#; // yes\nlet c = ['\"', '\\'']; /* a /* b */ c */\n";
        assert_eq!(
            texts(source, true),
            expected(&[("head", 1), ("doc", 2), ("yes", 4), ("a", 5), ("b", 5), ("c", 5)])
        );
    }
}

//! The pages' files, which the program has in it.

/// A file: its path, its type, and what is in it.
type File = (&'static str, &'static str, &'static str);

/// The file of that name under `web/`.
macro_rules! file {
    ($path:literal, $content_type:expr) => {
        (concat!("/", $path), $content_type, include_str!(concat!("../../web/", $path)))
    };
}

const FILES: [File; 1] = [file!("index.html", "text/html; charset=utf-8")];

/// Type and content of the file at this path; none: there is none.
pub fn at(path: &str) -> Option<(&'static str, &'static str)> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().find(|(own, _, _)| *own == path).map(|(_, content_type, text)| (*content_type, *text))
}

//! The pages' files, which the program has in it.

/// A file: its path, its type, and what is in it.
type File = (&'static str, &'static str, &'static str);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The file of that name under `web/`.
macro_rules! file {
    ($path:literal, $content_type:expr) => {
        (concat!("/", $path), $content_type, include_str!(concat!("../../web/", $path)))
    };
}

const FILES: [File; 15] = [
    file!("index.html", "text/html; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
    file!("style.css", STYLE),
    file!("app.js", SCRIPT),
    file!("charts.js", SCRIPT),
    file!("counters.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("flow.js", SCRIPT),
    file!("flows.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("groups.js", SCRIPT),
    file!("keys.js", SCRIPT),
    file!("overview.js", SCRIPT),
    file!("uplot/uPlot.iife.min.js", SCRIPT),
    file!("uplot/uPlot.min.css", STYLE),
];

/// Type and content of the file at this path; none: there is none.
pub fn at(path: &str) -> Option<(&'static str, &'static str)> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().find(|(own, _, _)| *own == path).map(|(_, content_type, text)| (*content_type, *text))
}

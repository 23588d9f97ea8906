//! Pages of reports.

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// Text that is safe inside HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Writes one file of a report; an error names it.
pub fn save(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| file.display().to_string())
}

/// A page with a title and a body.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>\
         body{{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}}\
         table{{border-collapse:collapse;margin:1rem 0}}td,th{{padding:.25rem .7rem;border-bottom:1px solid #ddd;\
         text-align:left}}td.n{{text-align:right}}.no{{color:#b00;font-weight:600}}svg{{max-width:100%;height:auto}}\
         </style><h1>{title}</h1>{body}</html>"
    )
}

//! Results as HTML pages that need nothing else. A page is `page.html` with its style, the data, `base.js` and the
//! body and script of one experiment.

mod pack;
mod preempt;

use std::io::{self, Write};

use serde::Serialize;

pub use pack::PackReport;
pub use preempt::PreemptReport;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const BASE: &str = include_str!("base.js");

/// What one kind of page adds to the frame.
struct View {
    title: &'static str,
    body: &'static str,
    script: &'static str,
}

fn write_page(out: &mut dyn Write, view: &View, data: &impl Serialize) -> io::Result<()> {
    // Inside a script element, only "</" could end it early.
    let data = serde_json::to_string(data)?.replace("</", "<\\/");
    let parts = [
        ("<!--TITLE-->", view.title),
        ("/*STYLE*/", STYLE),
        ("<!--BODY-->", view.body),
        ("/*DATA*/", &data),
        ("/*BASE*/", BASE),
        ("/*SCRIPT*/", view.script),
    ];
    let mut rest = PAGE;
    for (place, part) in parts {
        let (head, tail) = rest.split_once(place).expect("the page has a place for each part");
        out.write_all(head.as_bytes())?;
        out.write_all(part.as_bytes())?;
        rest = tail;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

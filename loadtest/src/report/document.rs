//! The frame of a page: a single file that loads nothing else.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// The page with this content; `title` names the tab of the browser.
pub fn frame(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { (content) } }
        }
    }
}

/// The page about an experiment that shows more than rows, which `command` made.
pub fn document(title: &str, command: &str, content: &Markup) -> Markup {
    frame(
        title,
        &html! { h1 { (title) } (content) h2 { "Where the figures come from" } p { "Made by " code { (command) } } },
    )
}

//! A page about an experiment that shows more than rows.

use super::page::STYLE;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The page with this title and content, which `command` made.
pub fn document(title: &str, command: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (content) h2 { "Where the figures come from" } p { "Made by " code { (command) } } } }
        }
    }
}

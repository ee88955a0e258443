//! The page as one document: HTML with its style and script. Its Content-Security-Policy allows
//! only these two, by their digests.
//!
//! Names of services and proxies come from outside. The script shows them only as text. If that
//! ever failed, the policy would keep them from running, loading or sending anything.

use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
/// In the order of execution.
const SCRIPTS: [&str; 4] = [
    include_str!("assets/show.js"),
    include_str!("assets/glance.js"),
    include_str!("assets/service.js"),
    include_str!("assets/page.js"),
];

/// The document and its Content-Security-Policy.
pub struct Document {
    html: Bytes,
    policy: HeaderValue,
}

impl Document {
    /// Builds the document from its parts.
    pub fn new() -> Self {
        // A digest covers everything between the tags.
        let script = format!("\n\"use strict\";\n{}", SCRIPTS.concat());
        let style = format!("\n{STYLE}");
        let html = HTML.replace("{{style}}", &style).replace("{{script}}", &script);
        let policy = format!(
            "default-src 'none'; connect-src 'self'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
            digest(&script),
            digest(&style),
        );
        // Base64 is valid in a header.
        let policy = HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        Self { html: html.into(), policy }
    }

    /// The response to `GET /`.
    pub fn response(&self) -> Response {
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
            (header::CONTENT_SECURITY_POLICY, self.policy.clone()),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        (headers, self.html.clone()).into_response()
    }
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_loads_nothing_and_has_no_placeholders() {
        let document = Document::new();
        let html = String::from_utf8(document.html.to_vec()).unwrap();
        assert!(html.contains("prefers-color-scheme") && html.contains("If-None-Match") && !html.contains("{{"));
        for elsewhere in ["http:", "https:", "src=", "@import", "url("] {
            let found = html.replace("http://www.w3.org/2000/svg", "").find(elsewhere);
            assert_eq!(found, None, "{elsewhere}");
        }
        let policy = document.policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
}

//! The smallest Wasm filters, as a reference: any filter costs at least as much.

#![allow(missing_docs, reason = "the macro of proxy-wasm writes an undocumented function")]

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, MapType};

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|_| Box::new(Root(None)));
}}

/// Where a header is set; none: nowhere.
struct Root(Option<MapType>);

impl Context for Root {}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        self.0 = match self.get_property(vec!["plugin_root_id"]).as_deref() {
            Some(b"noop") => None,
            Some(b"set_request_header") => Some(MapType::HttpRequestHeaders),
            Some(b"set_response_header") => Some(MapType::HttpResponseHeaders),
            _ => return false,
        };
        true
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, _context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Filter(self.0)))
    }
}

struct Filter(Option<MapType>);

impl Context for Filter {}

impl HttpContext for Filter {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        if self.0 == Some(MapType::HttpRequestHeaders) {
            self.set_http_request_header("x-reference", Some("1"));
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        if self.0 == Some(MapType::HttpResponseHeaders) {
            self.set_http_response_header("x-reference", Some("1"));
        }
        Action::Continue
    }
}

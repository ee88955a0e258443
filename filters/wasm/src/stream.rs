//! A request or an attempt, as Envoy shows it to the context of a filter.
#![allow(unsafe_code, reason = "the Proxy-Wasm ABI is a C ABI")]

use crate::abi::{self, header, header_bytes, in_context, property};
use bloc_engine::host::{HeaderMap, NumberAttribute, Reply, Stream, TextAttribute};
use proxy_wasm::types::MapType;
use std::ptr::null;

/// A stream, named by the number of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EnvoyStream(u32);

impl EnvoyStream {
    /// The stream of this context.
    pub fn new(context: u32) -> Self {
        Self(context)
    }
}

const fn map_type(map: HeaderMap) -> MapType {
    match map {
        HeaderMap::Request => MapType::HttpRequestHeaders,
        HeaderMap::Response => MapType::HttpResponseHeaders,
        HeaderMap::Trailers => MapType::HttpResponseTrailers,
    }
}

impl Stream for EnvoyStream {
    type Bytes<'a> = Vec<u8>;

    fn header(&self, map: HeaderMap, name: &str) -> Option<Vec<u8>> {
        header(map_type(map), name)
    }

    fn set_header(&self, map: HeaderMap, name: &str, value: &[u8]) {
        let map = map_type(map) as u32;
        // SAFETY: the pointers are valid for the call.
        unsafe {
            abi::proxy_replace_header_map_value(map, name.as_ptr(), name.len(), value.as_ptr(), value.len());
        }
    }

    fn add_header(&self, map: HeaderMap, name: &str, value: &[u8]) {
        let map = map_type(map) as u32;
        // SAFETY: the pointers are valid for the call.
        unsafe {
            abi::proxy_add_header_map_value(map, name.as_ptr(), name.len(), value.as_ptr(), value.len());
        }
    }

    fn remove_header(&self, map: HeaderMap, name: &str) {
        // SAFETY: the pointers are valid for the call.
        unsafe {
            abi::proxy_remove_header_map_value(map_type(map) as u32, name.as_ptr(), name.len());
        }
    }

    fn text(&self, text: TextAttribute) -> Option<Vec<u8>> {
        let path = match text {
            TextAttribute::ClusterName => "xds\0cluster_name",
            TextAttribute::UpstreamAddress => "upstream\0address",
            TextAttribute::Protocol => "request\0protocol",
            TextAttribute::IstioService => "xds\0cluster_metadata\0filter_metadata\0istio\0services\x000\0host",
            TextAttribute::IstioRoute => "xds\0route_metadata\0filter_metadata\0istio\0config",
        };
        property(path)
    }

    fn number(&self, number: NumberAttribute) -> Option<u64> {
        let path = match number {
            NumberAttribute::ResponseFlags => "response\0flags",
            NumberAttribute::RequestHeaderBytes => return header_bytes(map_type(HeaderMap::Request)),
            NumberAttribute::RequestBytes => "request\0total_size",
            NumberAttribute::ResponseBytes => "response\0total_size",
            NumberAttribute::Attempts => "upstream\0request_attempt_count",
        };
        property(path).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes)
    }

    fn reply(&self, reply: Reply<'_>) {
        let Reply { status, grpc_status, details, headers } = reply;
        let map = header_map(headers);
        // SAFETY: the pointers are valid for the call.
        unsafe {
            abi::proxy_send_local_response(
                status,
                details.as_ptr(),
                details.len(),
                null(),
                0,
                map.as_ptr(),
                map.len(),
                grpc_status,
            );
        }
    }

    fn resume(&self) {
        const HTTP_REQUEST: u32 = 0;
        in_context(self.0, || {
            // SAFETY: no pointers.
            unsafe {
                abi::proxy_continue_stream(HTTP_REQUEST);
            }
        });
    }

    fn in_own_context(&self, work: impl FnOnce()) {
        in_context(self.0, work);
    }
}

/// A header map in the ABI's format: the count, the sizes, then the names and values, each ended by
/// a zero byte.
fn header_map(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut map = Vec::with_capacity(128);
    map.extend((headers.len() as u32).to_le_bytes());
    for (name, value) in headers {
        map.extend((name.len() as u32).to_le_bytes());
        map.extend((value.len() as u32).to_le_bytes());
    }
    for text in headers.iter().flat_map(|(name, value)| [name, value]) {
        map.extend(text.as_bytes());
        map.push(0);
    }
    map
}

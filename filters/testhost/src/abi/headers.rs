//! Header maps, buffers and properties.

use super::call::{Answer, Call};
use super::memory::Slice;
use crate::headers::HeaderMap;
use crate::status::{Refusal, Status};

impl Call<'_, '_> {
    pub(super) fn get_header(&mut self, map: u32, key: Slice, to: Slice) -> Answer {
        let (key, map) = (self.read(key)?, self.guest().map(map, false)?);
        let value = map.borrow().get(key).map(<[u8]>::to_vec).ok_or(Refusal::Answer(Status::NotFound))?;
        self.give(&value, to)
    }

    pub(super) fn get_header_bytes(&mut self, map: u32, to: u32) -> Answer {
        let map = self.guest().map(map, false)?;
        let size: usize = map.borrow().iter().map(|(name, value)| name.len() + value.len()).sum();
        self.write(to, &(size as u32).to_le_bytes())
    }

    pub(super) fn add_header(&mut self, map: u32, key: Slice, value: Slice) -> Answer {
        let (key, value) = (self.read(key)?, self.read(value)?);
        self.guest().map(map, true)?.edit(|map| map.add(key, value));
        Ok(())
    }

    pub(super) fn replace_header(&mut self, map: u32, key: Slice, value: Slice) -> Answer {
        let (key, value) = (self.read(key)?, self.read(value)?);
        self.guest().map(map, true)?.edit(|map| map.set(key, value));
        Ok(())
    }

    pub(super) fn remove_header(&mut self, map: u32, key: Slice) -> Answer {
        let key = self.read(key)?;
        self.guest().map(map, true)?.edit(|map| map.remove(key));
        Ok(())
    }

    pub(super) fn get_pairs(&mut self, map: u32, to: Slice) -> Answer {
        let pairs = self.guest().map(map, false)?.borrow().encode();
        self.give(&pairs, to)
    }

    pub(super) fn set_pairs(&mut self, map: u32, pairs: Slice) -> Answer {
        let pairs = HeaderMap::decode(&self.read(pairs)?).ok_or_else(|| Refusal::bad("header pairs are malformed"))?;
        self.guest().map(map, true)?.edit(|map| *map = pairs);
        Ok(())
    }

    pub(super) fn get_buffer(&mut self, buffer: u32, start: u32, size: u32, to: Slice) -> Answer {
        let bytes = self.guest().buffer(buffer)?;
        let end = start.checked_add(size).ok_or_else(|| Refusal::bad("start and size of a buffer overflow"))?;
        let part = bytes.get(start as usize..bytes.len().min(end as usize)).unwrap_or_default();
        self.give(part, to)
    }

    pub(super) fn set_buffer(&mut self, buffer: u32, start: u32, size: u32, from: Slice) -> Answer {
        let new = self.read(from)?;
        let stream = self.guest().stream()?;
        let body = match buffer {
            0 => stream.request_body.as_mut(),
            1 => stream.response_body.as_mut(),
            _ => return Err(Refusal::bad(format!("buffer {buffer} cannot be changed"))),
        };
        let body =
            body.ok_or_else(|| Refusal::Fault(Status::NotFound, "the body is not there at this moment".into()))?;
        // Envoy only prepends, replaces all, or appends.
        match (start, size) {
            (0, 0) => drop(body.splice(0..0, new)),
            (0, size) if size as usize >= body.len() => *body = new,
            (start, _) if start > 0 && start as usize >= body.len() => body.extend(new),
            _ => return Err(Refusal::bad("a part of a body cannot be replaced")),
        }
        Ok(())
    }

    pub(super) fn get_property(&mut self, path: Slice, to: Slice) -> Answer {
        let path = self.read(path)?;
        let value = self.guest().property(&path).ok_or(Refusal::Answer(Status::NotFound))?;
        self.give(&value, to)
    }

    pub(super) fn set_property(&mut self, path: Slice, value: Slice) -> Answer {
        let (path, value) = (self.read(path)?, self.read(value)?);
        self.guest().stream()?.properties.insert(path, value);
        Ok(())
    }
}

//! The guest's memory: reading arguments, writing answers.

use super::call::{Answer, Call};
use crate::guest::Guest;
use crate::status::{Refusal, Status};

/// A pointer and a size.
pub(super) type Slice = (u32, u32);

impl Call<'_, '_> {
    pub(super) fn guest(&mut self) -> &mut Guest {
        self.0.data_mut()
    }

    fn outside(at: u32, size: u32) -> Refusal {
        Refusal::Fault(Status::InvalidMemoryAccess, format!("{size} bytes at {at:#x} are outside the guest's memory"))
    }

    fn memory(&self) -> Result<wasmtime::Memory, Refusal> {
        self.0.data().memory.ok_or_else(|| Self::outside(0, 0))
    }

    /// What the guest points to.
    pub(super) fn read(&self, (at, size): Slice) -> Result<Vec<u8>, Refusal> {
        let memory = self.memory()?.data(&*self.0);
        let slice = memory.get(at as usize..at as usize + size as usize);
        slice.map(<[u8]>::to_vec).ok_or_else(|| Self::outside(at, size))
    }

    /// Writes to where the guest points.
    pub(super) fn write(&mut self, at: u32, bytes: &[u8]) -> Answer {
        let memory = self.memory()?;
        let slice = memory.data_mut(&mut *self.0).get_mut(at as usize..at as usize + bytes.len());
        slice.ok_or_else(|| Self::outside(at, bytes.len() as u32))?.copy_from_slice(bytes);
        Ok(())
    }

    /// Gives bytes to the guest, in memory that the guest allocates; for no bytes, allocates
    /// nothing.
    pub(super) fn give(&mut self, bytes: &[u8], (to, to_size): Slice) -> Answer {
        let size = bytes.len() as u32;
        let mut place = 0;
        if size > 0 {
            let allocate = self.guest().allocate.clone();
            let allocate = allocate.ok_or_else(|| {
                Refusal::Fault(Status::InvalidMemoryAccess, "the module exports no way to allocate memory".into())
            })?;
            place = allocate.call(&mut *self.0, size).map_err(Refusal::Trap)?;
            let tally = self.guest().tally();
            tally.buffers += 1;
            tally.buffer_bytes += u64::from(size);
            self.write(place, bytes)?;
        }
        self.write(to, &place.to_le_bytes())?;
        self.write(to_size, &size.to_le_bytes())
    }
}

//! New service times for a running mesh.

use super::builder::START_LIMIT;
use super::error::MeshError;
use super::running::Mesh;
use crate::{http, seeds};
use futures_util::future::try_join_all;

impl Mesh {
    /// From now on the backends draw the service times of a mesh that starts with this `seed` in
    /// its [`MeshSpec`](super::MeshSpec). Requests in service keep their time.
    ///
    /// # Errors
    /// A backend does not answer, or refuses.
    pub async fn reseed(&self, seed: u64) -> Result<(), MeshError> {
        let tell = async |(n, app): (usize, &std::net::SocketAddr)| {
            let path = format!("/admin/seed/{}", seeds::backend(seed, n));
            let (status, _) = http::post(*app, &path, START_LIMIT).await?;
            if status.is_success() { Ok(()) } else { Err(MeshError::Speed { backend: n, status }) }
        };
        try_join_all(self.apps.iter().enumerate().map(tell)).await.map(|_| ())
    }
}

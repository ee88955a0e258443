//! An application that executes one request at a time and measures the time between two of them.
//!
//! It has a thread per connection, and no timer of a runtime: those are late by up to a
//! millisecond.

use bloc_mesh::backend::{APP_HEADER, answer};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const NAME: &str = "app";
/// The longest request that it reads.
const LONGEST: usize = 16 << 10;

/// What it has measured.
#[derive(Debug, Default)]
struct Place {
    ended: Option<Instant>,
    gaps: Vec<Duration>,
}

/// The application; a handle.
#[derive(Clone, Debug)]
pub struct Application {
    place: Arc<Mutex<Place>>,
    address: SocketAddr,
}

impl Application {
    /// Starts it on a free port. It runs until the process ends.
    ///
    /// # Errors
    /// There is no free port.
    pub fn start(service_time: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let application = Self { place: Arc::default(), address: listener.local_addr()? };
        let own = application.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                thread::spawn(move || own.serve(stream, service_time));
            }
        });
        Ok(application)
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The times between two executions since the last call, but for the one under way.
    pub fn take_gaps(&self) -> Vec<Duration> {
        std::mem::take(&mut self.place().gaps)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves requests without bodies until the connection ends.
    fn serve(&self, mut stream: TcpStream, service_time: Duration) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let body = answer(NAME);
        let whole = format!("HTTP/1.1 200 OK\r\n{APP_HEADER}: {NAME}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            request.clear();
            while !request.ends_with(b"\r\n\r\n") && request.len() < LONGEST {
                let size = stream.read(&mut piece)?;
                let Some(piece) = piece.get(..size).filter(|piece| !piece.is_empty()) else { return Ok(()) };
                request.extend_from_slice(piece);
            }
            let mut place = self.place();
            let began = Instant::now();
            if let Some(ended) = place.ended {
                place.gaps.push(began - ended);
            }
            thread::sleep(service_time);
            place.ended = Some(Instant::now());
            drop(place);
            stream.write_all(whole.as_bytes())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_mesh::load::{Client, Outcome};

    #[tokio::test]
    async fn measures_the_times_between_executions_and_not_the_executions() {
        let application = Application::start(Duration::from_millis(20)).unwrap();
        let client = Client::new(application.address(), "/", true, Duration::from_secs(5));
        let pause = Duration::from_millis(100);
        for _ in 0..3 {
            assert_eq!(client.request().await, Outcome::Ok);
            tokio::time::sleep(pause).await;
        }
        let gaps = application.take_gaps();
        assert_eq!(gaps.len(), 2, "{gaps:?}");
        assert!(gaps.iter().all(|gap| *gap >= pause), "{gaps:?}");
        assert!(application.take_gaps().is_empty());
    }
}

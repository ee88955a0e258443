//! Serves the HTTP interface until told to stop.

use crate::http;
use crate::metrics::Metrics;
use crate::store::Store;
use axum::serve::ListenerExt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::sleep;

/// How long answers may take to leave after the beginning of a shutdown; held polls are answered at once, so that this only
/// cuts off clients that do not read.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves `store` on `listener` until `shutdown` completes; then answers the polls that are held (304), takes no new
/// connections, and returns when all answers have left or 5 s have passed.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    store: Store,
    metrics: Arc<Metrics>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let closing = Arc::new(Notify::new());
    let closed = Arc::clone(&closing);
    let router = http::router(store.clone(), metrics);
    // Answers are small and awaited: waiting for more to send would only delay them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY");
        }
    });
    let begin = async move {
        shutdown.await;
        let held = store.close();
        tracing::info!(held, "shutting down, held polls are answered");
        closing.notify_one();
    };
    let server = axum::serve(listener, router).with_graceful_shutdown(begin);
    let deadline = async move {
        closed.notified().await;
        sleep(DRAIN).await;
    };
    tokio::select! {
        result = server.into_future() => result,
        () = deadline => {
            tracing::warn!("some clients did not take their answers within 5s");
            Ok(())
        }
    }
}

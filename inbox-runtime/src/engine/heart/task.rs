use std::future::Future;

use tokio::task::JoinError;
use tracing::Instrument;

/// Runs to its end whatever becomes of the caller: a begin or a commit that is cancelled leaves its session in a state that the next user of
/// the pool would trip over.
pub(crate) async fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T, JoinError> {
    tokio::spawn(work.in_current_span()).await
}

/// The same for work on a database; a runtime that shuts down is one that is out of reach.
pub(crate) async fn database_to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T, sqlx::Error> {
    to_the_end(work).await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
}

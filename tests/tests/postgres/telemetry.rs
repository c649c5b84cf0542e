//! A24: what is routine is not logged as an error.

use std::{
    io,
    sync::{Arc, Mutex},
};

use inbox_runtime::broker::Memory;
use inbox_tests::database::postgres_with;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tracing_subscriber::fmt::MakeWriter;

use super::support::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    /// What was logged since the last time, by the library.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Counters grow by what a snapshot tells: it takes them back to zero.
fn counted(snapshotter: &Snapshotter, name: &str, consumer: &str) -> u64 {
    let counters = snapshotter.snapshot().into_vec().into_iter();
    let ours = counters.filter(|(key, ..)| {
        key.key().name() == name && key.key().labels().any(|label| label.key() == "consumer" && label.value() == consumer)
    });
    ours.map(|(.., value)| if let DebugValue::Counter(count) = value { count } else { 0 }).sum()
}

#[tokio::test]
async fn a24_a_routine_duplicate_is_no_error() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).with_max_level(tracing::Level::DEBUG).finish();
    let _logs = tracing::subscriber::set_default(subscriber);
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let (pool, broker, id) = (postgres_with(2).await, Memory::new(), new_id());
    let running = serve(dispatcher(&pool, noting(), &["billing"]).await, &broker, intake());
    broker.publish(order(id, "{}"));
    running.drain(&broker).await;
    let first = lines.take();
    assert!(first.iter().any(|line| line.contains("applied=true") && line.contains(&id.to_string())), "{first:#?}");
    assert_eq!(counted(&snapshotter, "inbox_applied_total", "billing"), 1);
    broker.publish(order(id, "{}"));
    running.drain(&broker).await;
    let second = lines.take();
    running.stop().await.unwrap();
    let told = |line: &&String| line.contains("billing") && line.contains(&id.to_string());
    let about: Vec<_> = second.iter().filter(told).collect();
    assert!(about.iter().any(|line| line.contains("applied=false")), "{second:#?}");
    for line in &second {
        assert!(!line.contains("ERROR") && !line.contains("WARN"), "{line}");
    }
    assert_eq!(counted(&snapshotter, "inbox_duplicates_total", "billing"), 1);
    assert_eq!(broker.counts().done, 2);
    assert_once(&pool, "billing", id).await;
}

#[tokio::test]
async fn a_failure_is_logged_with_its_consumer_and_its_id_and_counted() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).with_max_level(tracing::Level::INFO).finish();
    let _logs = tracing::subscriber::set_default(subscriber);
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let (pool, id) = (postgres_with(2).await, new_id());
    let broker = Memory::new();
    broker.publish(order(id, "{}"));
    let attempts = std::sync::atomic::AtomicU32::new(0);
    let flaky = script(move |tx, id| {
        let attempt = attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Box::pin(async move {
            note(tx, "billing", id).await?;
            if attempt == 0 { Err("no stock".into()) } else { Ok(()) }
        })
    });
    let running = serve(dispatcher(&pool, flaky, &["billing"]).await, &broker, intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let told =
        |line: &String| line.contains("WARN") && line.contains("no stock") && line.contains("billing") && line.contains(&id.to_string());
    let lines = lines.take();
    assert_eq!(lines.iter().filter(|line| told(line)).count(), 1, "{lines:#?}");
    assert_eq!(counted(&snapshotter, "inbox_failures_total", "billing"), 1);
}

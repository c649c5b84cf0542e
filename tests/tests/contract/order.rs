//! Messages with one key are applied in their order, failures or not; others go on.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use inbox_runtime::broker::Memory;

use super::support::*;

/// Fails the first attempt of these.
fn failing_once(numbers: &[u128], log: Log<u128>) -> Script {
    let left: Arc<Mutex<HashSet<u128>>> = Arc::new(Mutex::new(numbers.iter().copied().collect()));
    script(move |number| {
        log.push(number);
        let fails = left.lock().expect("not poisoned").remove(&number);
        async move { if fails { Err("no stock".into()) } else { Ok(()) } }
    })
}

fn of(all: &[u128], remainder: u128) -> Vec<u128> {
    all.iter().copied().filter(|number| number % 3 == remainder).collect()
}

#[tokio::test]
async fn after_a_retry_what_follows_on_its_key_is_given_back_too() {
    let ((pool, inbox), broker, log) = (pool().await, Memory::new(), Log::new());
    // Three keys, three messages each, all in one receive.
    for n in 0..9 {
        broker.publish(numbered(n + 3).with_key(format!("account {}", n % 3)));
    }
    let running = serve(dispatcher(&inbox, failing_once(&[3, 7], log.clone())).await, broker.clone(), intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    let all = applied(&pool).await;
    assert_eq!((of(&all, 0), of(&all, 1), of(&all, 2)), (vec![3, 6, 9], vec![4, 7, 10], vec![5, 8, 11]), "each key in its order: {all:?}");
    assert_eq!(all.len(), 9);
    // What waited for the failed ones was not even begun, and the key without a failure was not held up.
    let begun = log.items();
    assert_eq!(of(&begun, 0), [3, 3, 6, 9], "{begun:?}");
    assert_eq!(of(&begun, 1), [4, 7, 7, 10], "{begun:?}");
    assert_eq!(&begun[..4], [3, 4, 5, 7], "{begun:?}");
    assert_eq!(broker.counts().done, 9);
}

/// However long the first waits: what is given back behind it waits as long.
#[tokio::test]
async fn a_long_retry_is_not_overtaken_on_its_key() {
    let ((pool, inbox), broker, log) = (pool().await, Memory::new(), Log::new());
    (1..=3).for_each(|n| broker.publish(numbered(n).with_key("account 1")));
    let long = std::time::Duration::from_millis(400);
    let body = failing_once(&[1], log.clone());
    let running = serve_with(dispatcher(&inbox, body).await, broker.clone(), intake(), |runner| runner.retry(long, long));
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(applied(&pool).await, [1, 2, 3]);
    assert_eq!(log.items(), [1, 1, 2, 3]);
}

#[tokio::test]
async fn without_a_key_a_failure_holds_nobody_up() {
    let ((pool, inbox), broker, log) = (pool().await, Memory::new(), Log::new());
    (1..=4).for_each(|n| broker.publish(numbered(n)));
    let running = serve(dispatcher(&inbox, failing_once(&[1], log.clone())).await, broker.clone(), intake());
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(applied(&pool).await, [2, 3, 4, 1]);
    assert_eq!(log.items(), [1, 2, 3, 4, 1]);
}

#[tokio::test]
async fn retries_wait_longer_and_the_message_is_not_given_up() {
    let ((pool, inbox), broker, attempts) = (pool().await, Memory::new(), Log::new());
    let begun = attempts.clone();
    let body = script(move |_| {
        begun.push(tokio::time::Instant::now());
        let fails = begun.items().len() < 6;
        async move { if fails { Err("no stock".into()) } else { Ok(()) } }
    });
    broker.publish(numbered(1));
    let first = std::time::Duration::from_millis(16);
    let running = serve_with(dispatcher(&inbox, body).await, broker.clone(), intake(), |runner| runner.retry(first, first * 8));
    running.drain(&broker).await;
    running.stop().await.unwrap();
    assert_eq!(applied(&pool).await, [1]);
    let pauses: Vec<_> = attempts.items().windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses.len(), 5);
    // Half of each step is jitter: at least 8, 16, 32, 64 and then no more than the longest asks for.
    for (pause, least) in pauses.iter().zip([8, 16, 32, 64, 64]) {
        assert!(*pause >= std::time::Duration::from_millis(least), "{pauses:?}");
    }
}

/// What was received and not begun is given back at a stop, not kept until its lease ends.
#[tokio::test]
async fn a_stop_finishes_the_message_under_way_and_gives_the_others_back() {
    let ((pool, inbox), broker) = (pool().await, Memory::new());
    (1..=5).for_each(|n| broker.publish(numbered(n)));
    let (begun, go) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Semaphore::new(0)));
    let (tell, wait) = (Arc::clone(&begun), Arc::clone(&go));
    let body = script(move |_| {
        let (begun, go) = (Arc::clone(&tell), Arc::clone(&wait));
        async move {
            begun.notify_one();
            go.acquire().await?.forget();
            Ok(())
        }
    });
    let running = serve(dispatcher(&inbox, body).await, broker.clone(), intake());
    bounded(begun.notified()).await;
    assert_eq!(broker.counts().held, 5);
    let stopping = tokio::spawn(running.stop());
    until(|| broker.counts().retried == 4).await;
    go.add_permits(1);
    bounded(stopping).await.unwrap().unwrap();
    let counts = broker.counts();
    assert_eq!((counts.done, counts.retried, counts.held, counts.ready), (1, 4, 0, 4), "{counts:?}");
    assert_eq!(applied(&pool).await, [1]);
}

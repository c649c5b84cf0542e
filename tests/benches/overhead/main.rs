//! What dispatch, extraction and the registry add to a message, in time and allocations, on a database that does nothing:
//! `cargo bench -p inbox-tests --bench overhead`. All of it runs on one thread, so time is CPU time. What a message costs on a real
//! database, which these figures are to be compared with, is what `--bench versus -- --only one --alone ours` prints.
#![allow(missing_docs, unreachable_pub, unnameable_types, reason = "a benchmark")]

mod consumers;
mod nothing;

use divan::{AllocProfiler, Bencher};
use inbox_runtime::{
    __private::extract,
    Dispatcher, IdFrom, Inbox, Intake, Json, Message, MessageId,
    broker::{Delivery, Lease, Origin},
};
use tokio::runtime::Runtime;

use crate::{
    consumers::{CONTEXT, OTHERS, Payment, payments, showing},
    nothing::Nothing,
};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const ID: &str = "0198c2f4-7a51-7d3a-9c39-6c1f4a0b52d1";

fn main() {
    divan::Divan::from_args().sample_count(200).sample_size(100).main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn message() -> Message {
    Message::new("payments", &br#"{"account_id":42,"amount_cents":1999}"#[..]).with_header("event-id", ID)
}

fn id() -> MessageId {
    ID.parse().expect("an id")
}

fn intake() -> Intake {
    Intake::new("payments", IdFrom::header("event-id"))
}

fn dispatcher(consumers: &[&str]) -> (Runtime, Dispatcher<Nothing>) {
    let runtime = runtime();
    let dispatcher = runtime.block_on(async {
        let inbox = Inbox::builder(nothing::pool()).build().expect("an inbox");
        Dispatcher::builder(&inbox).only(consumers.iter().copied()).build().await.expect("a dispatcher")
    });
    (runtime, dispatcher)
}

/// Route, run, and the receipts to the delivery.
fn dispatched(bencher: Bencher<'_, '_>, consumers: &[&str]) {
    let ((runtime, dispatcher), intake) = (dispatcher(consumers), intake());
    let delivery = || Delivery::new(message(), Origin::default(), Lease::new(), ());
    bencher.with_inputs(delivery).bench_local_values(|mut delivery| {
        let done = runtime.block_on(dispatcher.dispatch(&mut delivery, &intake));
        delivery.ack(done.receipts).expect("applied")
    });
}

/// The body, with the values that extraction would give it.
#[divan::bench]
fn a_body(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let pool = runtime.block_on(async { nothing::pool() });
    // The pool takes its connection back in a task.
    let _entered = runtime.enter();
    let mut tx = runtime.block_on(pool.begin()).expect("a transaction");
    let payment = || Json(Payment { account_id: 42, amount_cents: 1999 });
    bencher.with_inputs(payment).bench_local_values(|payment| runtime.block_on(payments::body(&mut tx, id(), payment)));
}

/// The same with a transaction of the pool around it.
#[divan::bench]
fn b_by_hand(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let pool = runtime.block_on(async { nothing::pool() });
    let message = message();
    bencher.bench_local(|| {
        runtime.block_on(async {
            let payment = serde_json::from_slice(message.payload.as_deref().expect("a payload")).expect("a payment");
            let id = message.headers.text("event-id").expect("text").expect("an id").parse().expect("an id");
            let mut tx = pool.begin().await.expect("a transaction");
            payments::body(&mut tx, id, Json(payment)).await.expect("done");
            tx.commit().await.expect("committed");
        });
    });
}

/// What the generated code takes from the message.
#[divan::bench]
fn c_extraction(bencher: Bencher<'_, '_>) {
    let (runtime, dispatcher) = dispatcher(&[showing::NAME]);
    let mut delivery = Delivery::new(message(), Origin::default(), Lease::new(), ());
    assert!(runtime.block_on(dispatcher.dispatch(&mut delivery, &intake())).failures.is_empty(), "it has run");
    let context = CONTEXT.get().expect("it was shown").clone();
    bencher.bench_local(|| (extract::<MessageId>(&context).expect("an id"), extract::<Json<Payment>>(&context).expect("a payment")));
}

/// Begin, claim, body, guard, commit, without dispatch, extraction and registry.
#[divan::bench]
fn d_direct_call(bencher: Bencher<'_, '_>) {
    let runtime = runtime();
    let inbox = runtime.block_on(async { Inbox::builder(nothing::pool()).build().expect("an inbox") });
    let payment = || Json(Payment { account_id: 42, amount_cents: 1999 });
    bencher.with_inputs(payment).bench_local_values(|payment| runtime.block_on(payments(&inbox, id(), id(), payment)).expect("applied"));
}

#[divan::bench]
fn e_dispatched(bencher: Bencher<'_, '_>) {
    dispatched(bencher, &[payments::NAME]);
}

#[divan::bench]
fn f_dispatched_among_eleven(bencher: Bencher<'_, '_>) {
    let all: Vec<&str> = OTHERS.iter().copied().chain([payments::NAME]).collect();
    dispatched(bencher, &all);
}

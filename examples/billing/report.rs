//! What is printed.

use std::{fmt, ops::AddAssign};

use crate::{
    handlers::NAMES,
    protocol::Mode,
    supervisor::Seen,
    verdict::{Balance, Verdict},
    wrong::WINDOW,
};

pub(crate) fn headline(mode: Mode) {
    let text = match mode {
        Mode::Inbox => "with the inbox: claim, work and skip are one commit, the ack comes after it",
        Mode::WithoutInbox => "counter-example: work, then ack; nothing remembers that the work was done",
        Mode::MarkAfterWork => "counter-example: work, then a mark in a second store, then ack",
        Mode::MarkBeforeWork => "counter-example: a mark in a second store, then work, then ack",
        Mode::AckFirst => "counter-example: ack, then commit",
    };
    println!("\n{text}");
    if mode != Mode::Inbox {
        println!("(the window between the two is kept open for {WINDOW:?} more, so that few kills are enough to see it)");
    }
}

pub(crate) fn table(verdict: &Verdict, seen: &Seen) {
    let counts = &seen.counts;
    println!("\n{:<28}{:>14}{:>14}", "", "expected", "actual");
    for (id, Balance { expected, actual }) in &verdict.accounts {
        row(&format!("account {id}"), &money(*expected), &money(*actual));
    }
    for (sku, Balance { expected, actual }) in &verdict.stock {
        row(&format!("units of {sku}"), &grouped(*expected), &grouped(*actual));
    }
    row("applied", &number(verdict.wanted), &number(verdict.applied));
    println!();
    let runs = counts.deliveries * NAMES.len() as u64;
    let line = |name: &str, value: u64, note: String| println!("{name:<28}{:>14}{:>14}   {note}", "", number(value));
    line("published", counts.published, format!("{} different orders", number(verdict.events)));
    line("deliveries", counts.deliveries, format!("each to {} consumers", NAMES.len()));
    line("applied", verdict.applied, "a consumer did its work".to_owned());
    line("duplicates", seen.duplicates, "a consumer skipped what it had applied".to_owned());
    line("cut short", runs.saturating_sub(verdict.applied + seen.duplicates), "the worker was killed before it had an answer".to_owned());
    line("kills", seen.kills, format!("{} unacked deliveries came again", number(counts.redelivered)));
    for (name, value) in [("given back by the worker", counts.given_back), ("dead letters", counts.dead_letters)] {
        if value > 0 {
            line(name, value, String::new());
        }
    }
    line("lost", verdict.lost, String::new());
    line("doubled", verdict.doubled, if verdict.doubled > 0 { doubled(verdict) } else { String::new() });
    println!("{:<28}{:>14}{:>12.1} s", "took", "", seen.took.as_secs_f64());
}

pub(crate) fn conclusion(mode: Mode, verdict: &Verdict, shown: bool) {
    if !verdict.examples.is_empty() {
        println!("\nfor example");
    }
    for (order, consumer, times) in &verdict.examples {
        let what = match *consumer {
            "billing" => format!("{} to account {}", money(order.amount_cents), order.account_id),
            _ => format!("{} of {}", order.quantity, order.sku),
        };
        let times = if *times == 0 { "never".to_owned() } else { format!("{times} times") };
        println!("  order {}: {consumer} applied {what} {times}", order.order_no);
    }
    let text = match (mode, shown) {
        (Mode::Inbox, true) => "every balance is right: nothing lost, nothing doubled",
        (Mode::Inbox, false) => "THIS IS WRONG: something was lost or doubled, or there were fewer kills than asked for",
        (Mode::WithoutInbox, true) => "as expected: killed between work and ack, the handlers did the work again",
        (Mode::MarkAfterWork, true) => "as expected: killed between work and mark, the handlers did the work again",
        (Mode::MarkBeforeWork, true) => "as expected: killed between mark and work, the handlers skipped work that never happened",
        (Mode::AckFirst, true) => "as expected: killed between ack and commit, the work is gone and no message comes again",
        (_, false) => "the fault did not show this time; try more --kills or another --seed",
    };
    println!("\n{text}\n");
}

fn doubled(verdict: &Verdict) -> String {
    format!("{} of orders that were published once: a kill alone did that", number(verdict.doubled_by_kill))
}

fn row(name: &str, expected: &str, actual: &str) {
    let mark = if expected == actual { "" } else { "   <- wrong" };
    println!("{name:<28}{expected:>14}{actual:>14}{mark}");
}

fn money(cents: i64) -> String {
    format!("{}.{:02}", grouped(cents / 100), cents.abs() % 100)
}

fn number(value: u64) -> String {
    grouped(i64::try_from(value).unwrap_or(i64::MAX))
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let first = digits.len() % 3;
    let mut out = if value < 0 { "-".to_owned() } else { String::new() };
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && i % 3 == first {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The last line.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Line {
    lost: u64,
    doubled: u64,
    kills: u64,
    deliveries: u64,
    applied: u64,
    duplicates: u64,
}

impl Line {
    pub(crate) const fn new(verdict: &Verdict, seen: &Seen) -> Self {
        Self {
            lost: verdict.lost,
            doubled: verdict.doubled,
            kills: seen.kills,
            deliveries: seen.counts.deliveries,
            applied: verdict.applied,
            duplicates: seen.duplicates,
        }
    }
}

impl AddAssign for Line {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.kills += other.kills;
        self.deliveries += other.deliveries;
        self.applied += other.applied;
        self.duplicates += other.duplicates;
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, doubled, kills, deliveries, applied, duplicates } = self;
        write!(f, "lost={lost} doubled={doubled} kills={kills} deliveries={deliveries} applied={applied} duplicates={duplicates}")
    }
}

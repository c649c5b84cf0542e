//! What counts transactions, and nothing else.

use std::{str::FromStr, time::Duration};

use log::LevelFilter;
use sqlx::{ConnectOptions, Connection, Error, SqlStr};
use sqlx_core::{Url, transaction::TransactionManager};

use super::Nothing;

#[derive(Debug)]
pub struct Connected {
    depth: usize,
}

#[derive(Debug, Clone)]
pub struct Address;

#[derive(Debug)]
pub struct Transactions;

impl Connection for Connected {
    type Database = Nothing;
    type Options = Address;

    async fn close(self) -> Result<(), Error> {
        Ok(())
    }

    async fn close_hard(self) -> Result<(), Error> {
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), Error> {
        Ok(())
    }

    async fn begin(&mut self) -> Result<sqlx::Transaction<'_, Nothing>, Error> {
        sqlx::Transaction::begin(self, None).await
    }

    fn shrink_buffers(&mut self) {}

    async fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn should_flush(&self) -> bool {
        false
    }
}

impl ConnectOptions for Address {
    type Connection = Connected;

    fn from_url(_url: &Url) -> Result<Self, Error> {
        Ok(Self)
    }

    async fn connect(&self) -> Result<Connected, Error> {
        Ok(Connected { depth: 0 })
    }

    fn log_statements(self, _level: LevelFilter) -> Self {
        self
    }

    fn log_slow_statements(self, _level: LevelFilter, _duration: Duration) -> Self {
        self
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(_url: &str) -> Result<Self, Error> {
        Ok(Self)
    }
}

impl TransactionManager for Transactions {
    type Database = Nothing;

    async fn begin(conn: &mut Connected, _statement: Option<SqlStr>) -> Result<(), Error> {
        conn.depth += 1;
        Ok(())
    }

    async fn commit(conn: &mut Connected) -> Result<(), Error> {
        conn.depth -= 1;
        Ok(())
    }

    async fn rollback(conn: &mut Connected) -> Result<(), Error> {
        conn.depth -= 1;
        Ok(())
    }

    fn start_rollback(conn: &mut Connected) {
        conn.depth -= 1;
    }

    fn get_transaction_depth(conn: &Connected) -> usize {
        conn.depth
    }
}

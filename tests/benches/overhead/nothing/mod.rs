//! A database that does nothing and is asked nothing: every claim is fresh, every commit is done.

mod connection;
mod dialect;
mod values;

use sqlx::Database;

use self::{
    connection::{Connected, Transactions},
    values::{Arguments, Column, Done, Row, Statement, Type, Value},
};

#[derive(Debug)]
pub struct Nothing;

impl Database for Nothing {
    type Connection = Connected;
    type TransactionManager = Transactions;
    type Row = Row;
    type QueryResult = Done;
    type Column = Column;
    type TypeInfo = Type;
    type Value = Value;
    type ValueRef<'r> = Value;
    type Arguments = Arguments;
    type ArgumentBuffer = ();
    type Statement = Statement;

    const NAME: &'static str = "nothing";
    const URL_SCHEMES: &'static [&'static str] = &["nothing"];
}

/// A pool of it.
pub(crate) fn pool() -> sqlx::Pool<Nothing> {
    sqlx::pool::PoolOptions::new().max_connections(2).connect_lazy_with(connection::Address)
}

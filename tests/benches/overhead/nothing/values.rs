//! What a database answers with. There is none of it.

use std::{borrow::Cow, fmt};

use sqlx::{ColumnIndex, Database, Encode, Error, SqlStr, encode::IsNull, error::BoxDynError};
use sqlx_core::{Either, impl_statement_query};

use super::Nothing;

#[derive(Debug)]
pub enum Row {}

#[derive(Debug)]
pub enum Column {}

#[derive(Debug, Clone, PartialEq)]
pub enum Type {}

#[derive(Debug)]
pub enum Value {}

#[derive(Debug, Clone)]
pub enum Statement {}

#[derive(Debug, Default)]
pub struct Arguments;

#[derive(Debug, Default)]
pub struct Done;

impl Extend<Self> for Done {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, _more: I) {}
}

impl sqlx::Row for Row {
    type Database = Nothing;

    fn columns(&self) -> &[Column] {
        match *self {}
    }

    fn try_get_raw<I: ColumnIndex<Self>>(&self, _index: I) -> Result<Value, Error> {
        match *self {}
    }
}

impl sqlx::Column for Column {
    type Database = Nothing;

    fn ordinal(&self) -> usize {
        match *self {}
    }

    fn name(&self) -> &str {
        match *self {}
    }

    fn type_info(&self) -> &Type {
        match *self {}
    }
}

impl fmt::Display for Type {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl sqlx::TypeInfo for Type {
    fn is_null(&self) -> bool {
        match *self {}
    }

    fn name(&self) -> &str {
        match *self {}
    }
}

impl sqlx::Value for Value {
    type Database = Nothing;

    fn as_ref(&self) -> Self {
        match *self {}
    }

    fn type_info(&self) -> Cow<'_, Type> {
        match *self {}
    }

    fn is_null(&self) -> bool {
        match *self {}
    }
}

impl sqlx::ValueRef<'_> for Value {
    type Database = Nothing;

    fn to_owned(&self) -> Self {
        match *self {}
    }

    fn type_info(&self) -> Cow<'_, Type> {
        match *self {}
    }

    fn is_null(&self) -> bool {
        match *self {}
    }
}

impl sqlx::Statement for Statement {
    type Database = Nothing;

    fn into_sql(self) -> SqlStr {
        match self {}
    }

    fn sql(&self) -> &SqlStr {
        match *self {}
    }

    fn parameters(&self) -> Option<Either<&[Type], usize>> {
        match *self {}
    }

    fn columns(&self) -> &[Column] {
        match *self {}
    }

    impl_statement_query!(Arguments);
}

impl sqlx::Arguments for Arguments {
    type Database = Nothing;

    fn reserve(&mut self, _additional: usize, _size: usize) {}

    fn add<'t, T: Encode<'t, Nothing> + sqlx::Type<Nothing>>(&mut self, value: T) -> Result<(), BoxDynError> {
        let _: IsNull = value.encode(&mut ())?;
        Ok(())
    }

    fn len(&self) -> usize {
        0
    }
}

impl sqlx::IntoArguments<Nothing> for Arguments {
    fn into_arguments(self) -> <Nothing as Database>::Arguments {
        self
    }
}

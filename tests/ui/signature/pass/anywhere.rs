#![deny(warnings, unused, missing_docs, unused_qualifications, elided_lifetimes_in_paths, unreachable_pub)]
#![forbid(unsafe_code)]
//! In a function, in a macro's output, in a nested module, with the prelude's names taken.

use inbox_runtime::idempotent_consumer;
use sqlx::{PgPool, Postgres, Transaction};

mod outer {
    pub(crate) mod inner {
        use inbox_runtime::idempotent_consumer;
        use sqlx::PgTransaction;

        #[idempotent_consumer(name = "nested")]
        pub(in crate::outer) async fn nested(tx: &mut PgTransaction<'_>) -> Result<(), super::Error> {
            sqlx::query("SELECT 1").execute(&mut **tx).await?;
            Ok(())
        }

        #[idempotent_consumer(name = "visible")]
        pub(crate) async fn visible(tx: &mut PgTransaction<'_>) -> Result<(), super::Error> {
            nested::body(tx).await
        }
    }

    pub(crate) type Error = sqlx::Error;
    pub(crate) use inner::visible;

    pub(crate) fn name() -> &'static str {
        inner::nested::NAME
    }
}

macro_rules! consumers {
    ($($(#[$meta:meta])* $vis:vis $name:ident = $durable:literal: $tx:ty => $error:ty $block:block)*) => {
        $(
            $(#[$meta])*
            #[idempotent_consumer(name = $durable)]
            $vis async fn $name(tx: &mut $tx) -> Result<(), $error> {
                let _ = tx;
                $block
            }
        )*
    };
}

consumers! {
    /// From a macro.
    pub first = "first": Transaction<'_, Postgres> => sqlx::Error { Ok(()) }
    second = "second": sqlx::SqliteTransaction<'_> => sqlx::Error { Ok(()) }
}

fn local() -> &'static str {
    #[idempotent_consumer(name = "local")]
    async fn charge(tx: &mut Transaction<'_, Postgres>) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT 1").execute(&mut **tx).await?;
        Ok(())
    }
    charge::NAME
}

mod shadowed {
    use inbox_runtime::idempotent_consumer;
    #[expect(dead_code)]
    struct Option;
    #[expect(dead_code)]
    struct Box;
    #[expect(dead_code)]
    struct String;
    #[expect(dead_code, non_camel_case_types)]
    struct str;
    type Result = core::result::Result<(), sqlx::Error>;

    #[idempotent_consumer(name = "shadowed")]
    pub(crate) async fn shadowed(tx: &mut sqlx::PgTransaction<'_>) -> Result {
        sqlx::query("SELECT 1").execute(&mut **tx).await?;
        Ok(())
    }
}

/// A pool, and an entry through it.
pub async fn call(pool: &PgPool, id: inbox_runtime::MessageId) -> bool {
    outer::visible(pool, id).await.is_ok() && first(pool, id).await.is_ok()
}

fn main() {
    assert_eq!([local(), outer::name(), first::NAME, second::NAME, shadowed::shadowed::NAME].len(), 5);
}

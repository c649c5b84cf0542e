use sqlx::{AssertSqlSafe, PgPool, raw_sql};

use super::sql::{FINISHING, schema};
use crate::{engine::contract::database::MigrateError, vocabulary::config::Tables};

/// A deferred constraint trigger: it runs within COMMIT, whoever sends it.
pub(super) async fn install(pool: &PgPool, tables: &Tables) -> Result<(), MigrateError> {
    let (schema, prefix) = (schema(tables), tables.prefix());
    let sql = format!(
        "CREATE OR REPLACE FUNCTION \"{schema}\".\"{prefix}inbox_commit_guard\"() RETURNS trigger LANGUAGE plpgsql \
         SET search_path = pg_catalog, pg_temp AS $guard$ BEGIN \
           IF current_setting('{FINISHING}', true) IS DISTINCT FROM pg_current_xact_id_if_assigned()::text THEN \
             RAISE EXCEPTION 'the inbox transaction of consumer % was ended by something else than the inbox', NEW.consumer_name \
               USING HINT = 'remove COMMIT from the handler'; \
           END IF; \
           RETURN NULL; \
         END $guard$; \
         DROP TRIGGER IF EXISTS inbox_commit_guard ON \"{schema}\".\"{prefix}inbox\"; \
         CREATE CONSTRAINT TRIGGER inbox_commit_guard AFTER INSERT ON \"{schema}\".\"{prefix}inbox\" \
           DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION \"{schema}\".\"{prefix}inbox_commit_guard\"()"
    );
    let mut tx = pool.begin().await?;
    raw_sql(AssertSqlSafe(sql)).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(())
}

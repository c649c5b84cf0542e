#[doc = "The consumer `ledger`: its durable name, its body without the inbox, its registration."]
#[cfg(feature = "ledger")]
#[cfg_attr(docsrs, doc(hidden))]
#[allow(missing_debug_implementations, non_camel_case_types)]
pub(crate) struct r#type {}
#[cfg(feature = "ledger")]
impl r#type {
    #[doc = r" The durable name, as it is stored in the inbox."]
    pub(crate) const NAME: &'static ::core::primitive::str = "ledger";
    #[doc = "The function as written, **without the inbox**: nothing is claimed, nothing is committed, and a second call applies a second effect. For unit tests.\n\n"]
    #[doc = " Writes the ledger."]
    #[doc = ""]
    #[doc = " # Errors"]
    #[doc = ""]
    #[doc = " When the database fails."]
    #[tracing::instrument(skip_all)]
    #[expect(clippy::too_many_lines, reason = "it is a ledger")]
    #[deprecated = "use the other one"]
    #[must_use]
    #[cfg_attr(docsrs, doc(hidden))]
    #[cfg_attr(docsrs, inline)]
    #[allow(clippy::missing_errors_doc, clippy::unused_async)]
    pub(crate) async fn body<'c>(
        tx: &mut Transaction<'c, Sqlite>,
        Json(OrderPlaced { id, .. }): Json<OrderPlaced>,
        mut key: Option<Key>,
        _: MessageId,
        State((clock, zone)): State<(Clock, Zone)>,
        id2: Header<Tenant>,
    ) -> Result<Reply<u64>, LedgerError> {
        let total = add(tx, id, &mut key, clock, zone, id2).await?;
        Ok(Reply(total))
    }
    #[doc = r" The registration, for a registry that is filled by hand."]
    pub(crate) const fn registration() -> crate::facade::__private::Registration {
        crate::facade::__private::Registration::new(&__consumer_type)
    }
    #[allow(clippy::too_many_lines, reason = "it is a ledger")]
    #[allow(deprecated)]
    fn __run<'__tx>(
        __tx: &'__tx mut Transaction<'_, Sqlite>,
        arg1: Json<OrderPlaced>,
        key: Option<Key>,
        arg3: MessageId,
        arg4: State<(Clock, Zone)>,
        id2: Header<Tenant>,
    ) -> crate::facade::__private::BoxFuture<'__tx, Result<Reply<u64>, LedgerError>> {
        crate::facade::__private::Box::pin(Self::body(__tx, arg1, key, arg3, arg4, id2))
    }
}
#[cfg(feature = "ledger")]
#[doc = " Writes the ledger."]
#[doc = ""]
#[doc = " # Errors"]
#[doc = ""]
#[doc = " When the database fails."]
#[cfg_attr(docsrs, doc(hidden))]
#[deprecated = "use the other one"]
#[must_use]
#[allow(clippy::too_many_lines, reason = "it is a ledger")]
#[allow(deprecated)]
#[allow(dead_code, clippy::missing_errors_doc)]
pub(crate) async fn r#type<__Inbox>(
    inbox: &__Inbox,
    id: crate::facade::__private::MessageId,
    arg1: Json<OrderPlaced>,
    key: Option<Key>,
    arg3: MessageId,
    arg4: State<(Clock, Zone)>,
    id2: Header<Tenant>,
) -> crate::facade::__private::Result<
    crate::facade::__private::Outcome<<Result<Reply<u64>, LedgerError> as crate::facade::__private::HandlerResult>::Value>,
    crate::facade::__private::ProcessError<<Result<Reply<u64>, LedgerError> as crate::facade::__private::HandlerResult>::Error>,
>
where
    __Inbox: crate::facade::__private::AsInbox<<Transaction<'static, Sqlite> as crate::facade::__private::TransactionParameter>::Database>,
{
    crate::facade::__private::direct::<_, Result<Reply<u64>, LedgerError>, _>(inbox, &__consumer_type, id, move |__tx| {
        r#type::__run(__tx, arg1, key, arg3, arg4, id2)
    })
    .await
}
#[cfg(feature = "ledger")]
#[allow(clippy::too_many_lines, reason = "it is a ledger")]
#[allow(deprecated)]
#[allow(non_upper_case_globals)]
static __consumer_type: crate::facade::__private::Consumer<
    <Transaction<'static, Sqlite> as crate::facade::__private::TransactionParameter>::Database,
> = crate::facade::__private::Consumer::new(
    crate::facade::__private::Facts {
        name: r#type::NAME,
        aliases: &["books", "journal"],
        topics: &["orders", "refunds"],
        event: crate::facade::__private::Some("OrderPlaced"),
        isolation: crate::facade::__private::Some(crate::facade::__private::Isolation::Serializable),
        timeout: crate::facade::__private::Some(crate::facade::__private::Duration::from_millis(1500u64)),
        location: crate::facade::__private::Location { file: ::core::file!(), line: ::core::line!(), module: ::core::module_path!() },
    },
    |__tx, __cx| {
        crate::facade::__private::Box::pin(async move {
            crate::facade::__private::conclude::<Result<Reply<u64>, LedgerError>>(
                r#type::__run(
                    __tx,
                    crate::facade::__private::extract::<Json<OrderPlaced>>(__cx)?,
                    crate::facade::__private::extract::<Option<Key>>(__cx)?,
                    crate::facade::__private::extract::<MessageId>(__cx)?,
                    crate::facade::__private::extract::<State<(Clock, Zone)>>(__cx)?,
                    crate::facade::__private::extract::<Header<Tenant>>(__cx)?,
                )
                .await,
            )
        })
    },
    |__requirements| {
        crate::facade::__private::require::<Json<OrderPlaced>>(__requirements);
        crate::facade::__private::require::<Option<Key>>(__requirements);
        crate::facade::__private::require::<MessageId>(__requirements);
        crate::facade::__private::require::<State<(Clock, Zone)>>(__requirements);
        crate::facade::__private::require::<Header<Tenant>>(__requirements);
    },
);
#[cfg(feature = "ledger")]
crate::facade::__private::inventory::submit! { r#type :: registration () }

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
    #[allow(clippy::too_many_lines, reason = "it is a ledger")]
    #[allow(deprecated)]
    #[allow(unused_qualifications)]
    pub(crate) const fn registration() -> crate::facade::__private::Registration {
        use crate::facade::__private as __p;
        static CONSUMER: __p::Registration = __p::Registration(&__p::Consumer::new(
            __p::Facts {
                aliases: &["books", "journal"],
                topics: &["orders", "refunds"],
                event: __p::Some("OrderPlaced"),
                isolation: __p::Some(__p::Isolation::Serializable),
                timeout: __p::Some(__p::Duration::new(1u64, 500000000u32)),
                group: 50u16,
                ..__p::Facts::new(r#type::NAME, __p::Location::new(::core::file!(), ::core::line!(), ::core::module_path!()))
            },
            |__tx, __cx| {
                __p::Box::pin(async move {
                    let __tx = <Transaction<'_, Sqlite> as __p::TransactionParameter<'_, _>>::at(__tx);
                    let __result = r#type::__run(
                        __tx,
                        __p::extract::<Json<OrderPlaced>>(__cx)?,
                        __p::extract::<Option<Key>>(__cx)?,
                        __p::extract::<MessageId>(__cx)?,
                        __p::extract::<State<(Clock, Zone)>>(__cx)?,
                        __p::extract::<Header<Tenant>>(__cx)?,
                    )
                    .await;
                    __p::conclude(<Result<Reply<u64>, LedgerError> as __p::HandlerResult>::proof(), __result)
                })
            },
            |__requirements| {
                __p::require::<Json<OrderPlaced>>(__requirements);
                __p::require::<Option<Key>>(__requirements);
                __p::require::<MessageId>(__requirements);
                __p::require::<State<(Clock, Zone)>>(__requirements);
                __p::require::<Header<Tenant>>(__requirements);
            },
        ));
        CONSUMER
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
#[allow(dead_code, unused_qualifications, clippy::missing_errors_doc)]
pub(crate) fn r#type<__DB: crate::facade::__private::InboxDatabase, __Inbox: crate::facade::__private::AsInbox<__DB>>(
    inbox: &__Inbox,
    id: crate::facade::__private::MessageId,
    arg1: Json<OrderPlaced>,
    key: Option<Key>,
    arg3: MessageId,
    arg4: State<(Clock, Zone)>,
    id2: Header<Tenant>,
) -> crate::facade::__private::Called<Result<Reply<u64>, LedgerError>>
where
    for<'__c> Transaction<'__c, Sqlite>: crate::facade::__private::TransactionParameter<'__c, __DB>,
{
    use crate::facade::__private as __p;
    __p::direct(<Result<Reply<u64>, LedgerError> as __p::HandlerResult>::proof(), inbox, r#type::registration(), id, move |__tx| {
        r#type::__run(<Transaction<'_, Sqlite> as __p::TransactionParameter<'_, __DB>>::at(__tx), arg1, key, arg3, arg4, id2)
    })
}
#[cfg(feature = "ledger")]
crate::facade::__private::inventory::submit! { r#type :: registration () }

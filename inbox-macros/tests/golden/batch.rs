#[doc = "The consumer `ledger`: its durable name, its body without the inbox, its registration."]
#[allow(missing_debug_implementations, non_camel_case_types)]
struct ledger {}
impl ledger {
    #[doc = r" The durable name, as it is stored in the inbox."]
    const NAME: &'static ::core::primitive::str = "ledger";
    #[doc = "The function as written, **without the inbox**: nothing is claimed, nothing is committed, and a second call applies a second effect. For unit tests.\n\n"]
    #[allow(clippy::missing_errors_doc, clippy::unused_async)]
    async fn body(tx: &mut Transaction<'_, Postgres>, ids: Vec<MessageId>, State(rates): State<Rates>) -> Result<Vec<Reply<u64>>, Error> {
        Ok(vec![])
    }
    #[doc = r" The registration, for a registry that is filled by hand."]
    #[allow(unused_qualifications)]
    const fn registration() -> ::inbox_runtime::__private::Registration {
        use ::inbox_runtime::__private as __p;
        static CONSUMER: __p::Registration = __p::Registration(&__p::Consumer::batch(
            __p::Facts {
                group: 500u16,
                linger: __p::Duration::new(0u64, 20000000u32),
                ..__p::Facts::new(ledger::NAME, __p::Location::new(::core::file!(), ::core::line!(), ::core::module_path!()))
            },
            |__tx, __cx| {
                __p::Box::pin(async move {
                    let __tx = <Transaction<'_, Postgres> as __p::TransactionParameter<'_, _>>::at(__tx);
                    let __result =
                        ledger::__run(__tx, __p::extract_each::<MessageId>(__cx)?, __p::extract_shared::<State<Rates>>(__cx)?).await;
                    __p::conclude_each(<Result<Vec<Reply<u64>>, Error> as __p::BatchResult>::proof(), __result, __cx)
                })
            },
            |__requirements| {
                __p::require::<MessageId>(__requirements);
                __p::require::<State<Rates>>(__requirements);
            },
        ));
        CONSUMER
    }
    fn __run<'__tx>(
        __tx: &'__tx mut Transaction<'_, Postgres>,
        ids: Vec<MessageId>,
        rates: State<Rates>,
    ) -> ::inbox_runtime::__private::BoxFuture<'__tx, Result<Vec<Reply<u64>>, Error>> {
        ::inbox_runtime::__private::Box::pin(Self::body(__tx, ids, rates))
    }
}
#[doc = "\n\nApplies its effect once for the message `id`: the effect and the row in the inbox are one commit, and a message that was applied before is answered without running the body.\n\n# Errors\n\nWhat the body returned, or what kept it from running or committing. Nothing is applied then, unless the error says that the outcome is unknown."]
#[allow(dead_code, unused_qualifications, clippy::missing_errors_doc)]
fn ledger<__DB: ::inbox_runtime::__private::InboxDatabase, __Inbox: ::inbox_runtime::__private::AsInbox<__DB>>(
    inbox: &__Inbox,
    id: ::inbox_runtime::__private::MessageId,
    ids: MessageId,
    rates: State<Rates>,
) -> ::inbox_runtime::__private::Called<<Result<Vec<Reply<u64>>, Error> as ::inbox_runtime::__private::BatchResult>::One>
where
    for<'__c> Transaction<'__c, Postgres>: ::inbox_runtime::__private::TransactionParameter<'__c, __DB>,
{
    use ::inbox_runtime::__private as __p;
    __p::direct_of_batch(<Result<Vec<Reply<u64>>, Error> as __p::BatchResult>::proof(), inbox, ledger::registration(), id, move |__tx| {
        ledger::__run(<Transaction<'_, Postgres> as __p::TransactionParameter<'_, __DB>>::at(__tx), __p::Vec::from([ids]), rates)
    })
}
::inbox_runtime::__private::inventory::submit! { ledger :: registration () }

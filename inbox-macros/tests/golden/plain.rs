#[doc = "The consumer `billing`: its durable name, its body without the inbox, its registration."]
#[allow(missing_debug_implementations, non_camel_case_types)]
pub struct charge {}
impl charge {
    #[doc = r" The durable name, as it is stored in the inbox."]
    pub const NAME: &'static ::core::primitive::str = "billing";
    #[doc = "The function as written, **without the inbox**: nothing is claimed, nothing is committed, and a second call applies a second effect. For unit tests.\n\n"]
    #[doc = " Charges an account."]
    #[allow(clippy::missing_errors_doc, clippy::unused_async)]
    pub async fn body(tx: &mut Transaction<'_, Postgres>, Json(order): Json<Order>) -> Result<(), Error> {
        Ok(())
    }
    #[doc = r" The registration, for a registry that is filled by hand."]
    #[allow(unused_qualifications)]
    pub const fn registration() -> ::inbox_runtime::__private::Registration {
        use ::inbox_runtime::__private as __p;
        static CONSUMER: __p::Registration = __p::Registration(&__p::Consumer::new(
            __p::Facts {
                topics: &["orders"],
                ..__p::Facts::new(charge::NAME, __p::Location::new(::core::file!(), ::core::line!(), ::core::module_path!()))
            },
            |__tx, __cx| {
                __p::Box::pin(async move {
                    let __tx = <Transaction<'_, Postgres> as __p::TransactionParameter<'_, _>>::at(__tx);
                    let __result = charge::__run(__tx, __p::extract::<Json<Order>>(__cx)?).await;
                    __p::conclude(<Result<(), Error> as __p::HandlerResult>::proof(), __result)
                })
            },
            |__requirements| __p::require::<Json<Order>>(__requirements),
        ));
        CONSUMER
    }
    fn __run<'__tx>(
        __tx: &'__tx mut Transaction<'_, Postgres>,
        order: Json<Order>,
    ) -> ::inbox_runtime::__private::BoxFuture<'__tx, Result<(), Error>> {
        ::inbox_runtime::__private::Box::pin(Self::body(__tx, order))
    }
}
#[doc = " Charges an account."]
#[doc = "\n\nApplies its effect once for the message `id`: the effect and the row in the inbox are one commit, and a message that was applied before is answered without running the body.\n\n# Errors\n\nWhat the body returned, or what kept it from running or committing. Nothing is applied then, unless the error says that the outcome is unknown."]
#[allow(dead_code, unused_qualifications, clippy::missing_errors_doc)]
pub fn charge<__DB: ::inbox_runtime::__private::InboxDatabase, __Inbox: ::inbox_runtime::__private::AsInbox<__DB>>(
    inbox: &__Inbox,
    id: ::inbox_runtime::__private::MessageId,
    order: Json<Order>,
) -> ::inbox_runtime::__private::Called<Result<(), Error>>
where
    for<'__c> Transaction<'__c, Postgres>: ::inbox_runtime::__private::TransactionParameter<'__c, __DB>,
{
    use ::inbox_runtime::__private as __p;
    __p::direct(<Result<(), Error> as __p::HandlerResult>::proof(), inbox, charge::registration(), id, move |__tx| {
        charge::__run(<Transaction<'_, Postgres> as __p::TransactionParameter<'_, __DB>>::at(__tx), order)
    })
}
::inbox_runtime::__private::inventory::submit! { charge :: registration () }

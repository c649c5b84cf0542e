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
    pub const fn registration() -> ::inbox_runtime::__private::Registration {
        ::inbox_runtime::__private::Registration::new(&__consumer_charge)
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
#[allow(dead_code, clippy::missing_errors_doc)]
pub async fn charge<__Inbox>(
    inbox: &__Inbox,
    id: ::inbox_runtime::__private::MessageId,
    order: Json<Order>,
) -> ::inbox_runtime::__private::Result<
    ::inbox_runtime::__private::Outcome<<Result<(), Error> as ::inbox_runtime::__private::HandlerResult>::Value>,
    ::inbox_runtime::__private::ProcessError<<Result<(), Error> as ::inbox_runtime::__private::HandlerResult>::Error>,
>
where
    __Inbox:
        ::inbox_runtime::__private::AsInbox<<Transaction<'static, Postgres> as ::inbox_runtime::__private::TransactionParameter>::Database>,
{
    ::inbox_runtime::__private::direct::<_, Result<(), Error>, _>(inbox, &__consumer_charge, id, move |__tx| charge::__run(__tx, order))
        .await
}
#[allow(non_upper_case_globals)]
static __consumer_charge: ::inbox_runtime::__private::Consumer<
    <Transaction<'static, Postgres> as ::inbox_runtime::__private::TransactionParameter>::Database,
> = ::inbox_runtime::__private::Consumer::new(
    ::inbox_runtime::__private::Facts {
        name: charge::NAME,
        aliases: &[],
        topics: &["orders"],
        event: ::inbox_runtime::__private::None,
        isolation: ::inbox_runtime::__private::None,
        timeout: ::inbox_runtime::__private::None,
        location: ::inbox_runtime::__private::Location { file: ::core::file!(), line: ::core::line!(), module: ::core::module_path!() },
    },
    |__tx, __cx| {
        ::inbox_runtime::__private::Box::pin(async move {
            ::inbox_runtime::__private::conclude::<Result<(), Error>>(
                charge::__run(__tx, ::inbox_runtime::__private::extract::<Json<Order>>(__cx)?).await,
            )
        })
    },
    |__requirements| {
        ::inbox_runtime::__private::require::<Json<Order>>(__requirements);
    },
);
::inbox_runtime::__private::inventory::submit! { charge :: registration () }

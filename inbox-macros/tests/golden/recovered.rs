::core::compile_error! { "unknown argument `nmae`; did you mean `name`?" }
#[doc = "The consumer `charge`: its durable name, its body without the inbox, its registration."]
#[allow(missing_debug_implementations, non_camel_case_types)]
struct charge {}
impl charge {
    #[doc = r" The durable name, as it is stored in the inbox."]
    const NAME: &'static ::core::primitive::str = "charge";
    #[allow(dead_code, unused_variables)]
    #[doc = "The function as written, **without the inbox**: nothing is claimed, nothing is committed, and a second call applies a second effect. For unit tests.\n\n"]
    #[allow(clippy::missing_errors_doc, clippy::unused_async)]
    async fn body(tx: &mut Transaction<'_, Postgres>, Json(order): Json<Order>) -> Result<(), Error> {
        Ok(())
    }
    #[allow(dead_code)]
    fn registration() -> ::inbox_runtime::__private::Registration {
        ::core::unimplemented!()
    }
}
#[allow(unused_variables)]
#[doc = "\n\nApplies its effect once for the message `id`: the effect and the row in the inbox are one commit, and a message that was applied before is answered without running the body.\n\n# Errors\n\nWhat the body returned, or what kept it from running or committing. Nothing is applied then, unless the error says that the outcome is unknown."]
#[allow(dead_code, unused_qualifications, clippy::missing_errors_doc)]
fn charge<__DB: ::inbox_runtime::__private::InboxDatabase, __Inbox: ::inbox_runtime::__private::AsInbox<__DB>>(
    inbox: &__Inbox,
    id: ::inbox_runtime::__private::MessageId,
    order: Json<Order>,
) -> ::inbox_runtime::__private::Called<Result<(), Error>>
where
    for<'__c> Transaction<'__c, Postgres>: ::inbox_runtime::__private::TransactionParameter<'__c, __DB>,
{
    ::core::unimplemented!()
}

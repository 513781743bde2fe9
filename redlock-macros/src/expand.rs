//! The code that replaces the body.
//!
//! ```text
//! // Input:
//! #[redlock(resource = "order:{id}", ttl = "30s", lock = guard)]
//! async fn pay(id: u64) -> Result<Receipt, AppError> { work(id).await }
//!
//! // Output:
//! async fn pay(id: u64) -> Result<Receipt, AppError> {
//!     let __redlock_locked = {
//!         let __redlock_call = {
//!             let __redlock_resource = format!("order:{id}");
//!             let __redlock_options = const {
//!                 &LockOptions::new().ttl(Duration::from_millis(30000)).label("order:{id}")
//!             };
//!             of_pool("default", __redlock_resource, __redlock_options)
//!         };
//!         let __redlock_refusal = error_from::<Result<Receipt, AppError>>();
//!         let __redlock_body = async move {
//!             let guard: LockHandle = lock();
//!             if false { let __redlock_never: Result<Receipt, AppError> = loop {}; return __redlock_never; }
//!             { work(id).await }
//!         };
//!         run(__redlock_call, __redlock_refusal, OnLost::Cancel, __redlock_body)
//!     };
//!     __redlock_locked.await
//! }
//! ```
//!
//! The call is a statement of its own: what it borrows, from `self` or from the arguments, is
//! given back before the body takes them. It is in a block of its own: no part of it lives across the
//! await, where the function would have to remember whether it is still there.

use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::{
    function::Function,
    output::Output,
    paths::{Paths, mixed},
    request::Request,
    returned_future::{ReturnedFuture, rename_self},
    validate::{Plan, Refusal},
    value::OnLost,
};

/// The function with its body under the lock.
///
/// Built with `returned` when the function is not `async`.
pub(crate) fn function(
    function: &Function,
    returned: Option<ReturnedFuture>,
    plan: &Plan,
    output: &Output,
    paths: &Paths,
) -> TokenStream {
    let locked = Locked { plan, output, paths, arguments: function.argument_names() };
    let body = match returned {
        None => locked.statements(function.body.clone(), None),
        Some(future) => future.with_work(|work, receiver| locked.statements(work, receiver)),
    };
    function.with_body(body)
}

struct Locked<'a> {
    plan: &'a Plan,
    output: &'a Output,
    paths: &'a Paths,
    arguments: Vec<&'a Ident>,
}

impl Locked<'_> {
    /// The braces of `work` stay the user's: by their edition the body drops its temporaries.
    fn statements(&self, work: Group, receiver: Option<&Ident>) -> TokenStream {
        let Plan { source, resource, settings, .. } = self.plan;
        let request = Request { source, resource, settings };
        let mut request = request.call(self.paths, &self.arguments);
        let mut refusal = self.refusal(&self.plan.refusal);
        if let Some(receiver) = receiver {
            request = rename_self(request, receiver);
            refusal = rename_self(refusal, receiver);
        }
        let krate = self.paths.krate();
        let private = self.paths.private();
        let on_lost = match self.plan.on_lost {
            OnLost::Cancel => quote_mixed!(Cancel),
            OnLost::Continue => quote_mixed!(Continue),
        };
        let handle = self
            .plan
            .lock
            .as_ref()
            .map(|name| quote_mixed!(let #name: #krate::LockHandle = #private::lock();));
        let typed = self.typed_return();
        let mut body = Group::new(
            Delimiter::Brace,
            quote_mixed!(#handle #typed #[allow(unused_braces)] #work),
        );
        body.set_span(work.span());
        let body = quote_spanned!(work.span()=> async move #body);
        // A body may well give something to await, such as a task it has started.
        let yields = self
            .output
            .may_be_a_future()
            .then(|| quote_mixed!(#[allow(clippy::async_yields_async)]));
        quote_mixed! {
            let __redlock_locked = {
                // An argument that only the key needs may be called `_id`.
                #[allow(clippy::used_underscore_binding)]
                let __redlock_call = #request;
                #[allow(clippy::used_underscore_binding)]
                let __redlock_refusal = #refusal;
                #yields
                let __redlock_body = #body;
                #private::run(
                    __redlock_call,
                    __redlock_refusal,
                    #private::OnLost::#on_lost,
                    __redlock_body,
                )
            };
            __redlock_locked.await
        }
    }

    /// Names the return type, so that a closure is checked against it and rustc shows at the
    /// return type what that lacks.
    fn refusal(&self, refusal: &Refusal) -> TokenStream {
        let output = &self.output.ty;
        match refusal {
            Refusal::ErrorFrom => self.at_return_type("error_from", quote!(#output), None),
            Refusal::MapErr(f) => {
                let private = self.paths.private_at(f.span());
                quote_spanned!(mixed(f.span())=> #private::map_err::<#output, _>(#f))
            }
            Refusal::OnReject(f) => {
                let private = self.paths.private_at(f.span());
                quote_spanned!(mixed(f.span())=> #private::on_reject::<#output, _>(#f))
            }
            Refusal::SkipOk(otherwise) => {
                let otherwise = self.refusal(otherwise);
                self.at_return_type("skip_ok", quote_mixed!(#output, _), Some(otherwise))
            }
            Refusal::Skip(otherwise) => {
                let otherwise = self.refusal(otherwise);
                self.at_return_type("skip", quote_mixed!(#output, _), Some(otherwise))
            }
            Refusal::Default => self.at_return_type("default_and_log", quote!(#output), None),
        }
    }

    fn at_return_type(
        &self,
        function: &str,
        types: TokenStream,
        argument: Option<TokenStream>,
    ) -> TokenStream {
        let place = self.output.place;
        let private = self.paths.private_at(place);
        let function = Ident::new(function, mixed(place));
        quote_spanned!(mixed(place)=> #private::#function::<#types>(#argument))
    }

    /// Never run: tells rustc the type of the block before it reads the body, so that a wrong
    /// type is shown in the body and `?`, `into()` and `return` know what to make.
    fn typed_return(&self) -> TokenStream {
        let output = &self.output.ty;
        quote_mixed! {
            #[allow(
                unknown_lints,
                unreachable_code,
                clippy::diverging_sub_expression,
                clippy::empty_loop,
                clippy::let_and_return,
                clippy::let_unit_value,
                clippy::let_with_type_underscore,
                clippy::needless_return,
                clippy::type_complexity,
                clippy::unused_unit
            )]
            if false {
                let __redlock_never: #output = loop {};
                return __redlock_never;
            }
        }
    }
}

//! Functions that are not `async` but return an async block: what async-trait makes of a method.
//!
//! ```text
//! // Input, what async-trait has made of `async fn pay(&self, Order { id }: Order) -> Ret {..}`:
//! fn pay<'a>(&'a self, __arg1: Order) -> Pin<Box<dyn Future<Output = Ret> + Send + 'a>> {
//!     Box::pin(async move {
//!         if let Some(__ret) = None::<Ret> { return __ret; }
//!         let __self = self;
//!         let Order { id } = { let __arg1 = __arg1; __arg1 };
//!         let __ret: Ret = {..};
//!         __ret
//!     })
//! }
//!
//! // Output: everything after the arguments goes under the lock, in the same place.
//!     Box::pin(async move {
//!         if let Some(__ret) = None::<Ret> { return __ret; }
//!         let __self = self;
//!         let Order { id } = { let __arg1 = __arg1; __arg1 };
//!         <lock>(async move { let __ret: Ret = {..}; __ret })
//!     })
//! ```

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Block, Expr, ExprAsync, ExprBlock, ExprPath, Local, Pat, Stmt,
    parse::Parser,
    visit::Visit,
    visit_mut::{VisitMut, visit_expr_async_mut},
};

use crate::exit::Exit;

/// The body of a function that ends in an async block, boxed or not.
#[derive(Debug)]
pub(crate) struct ReturnedFuture {
    statements: Vec<Stmt>,
}

impl ReturnedFuture {
    /// The body, if it is one.
    pub(crate) fn recognise(body: &Group) -> Option<Self> {
        let mut statements = Block::parse_within.parse2(body.stream()).ok()?;
        async_block(&mut statements)?;
        Some(Self { statements })
    }

    /// Where the body is left before its async block, and so before the lock.
    pub(crate) fn early_return(&self) -> Option<Span> {
        let mut exit = Exit::default();
        self.statements.iter().for_each(|statement| exit.visit_stmt(statement));
        exit.by_return
    }

    /// What a body that is none ends in: the place that decides it.
    pub(crate) fn end_of_another(body: &Group) -> Option<TokenStream> {
        match Block::parse_within.parse2(body.stream()).ok()?.pop()? {
            Stmt::Expr(Expr::MethodCall(call), None) => Some(call.method.into_token_stream()),
            Stmt::Expr(Expr::Call(call), None) => Some(call.func.into_token_stream()),
            Stmt::Expr(last, None) => Some(last.into_token_stream()),
            Stmt::Macro(last) => Some(last.mac.path.into_token_stream()),
            _ => None,
        }
    }

    /// The body with the work of the async block rewritten.
    ///
    /// `rewrite` gets the work in its braces, and how the receiver is called there when it is
    /// not `self`.
    pub(crate) fn with_work(
        mut self,
        rewrite: impl FnOnce(Group, Option<&Ident>) -> TokenStream,
    ) -> TokenStream {
        if let Some(returned) = async_block(&mut self.statements) {
            let mut search = Search { rewrite: Some(rewrite) };
            search.visit_expr_async_mut(returned);
            if let Some(rewrite) = search.rewrite {
                // It is returned, and the block inside of it owns what it names.
                returned.capture.get_or_insert_default();
                rewrite_block(returned, rewrite);
            }
        }
        let statements = self.statements;
        quote!(#(#statements)*)
    }
}

/// Rewrites the block that async-trait made, wherever it is by now: `#[instrument]`, when it
/// stands above, has put it into a block of its own, where the arguments are not bound yet.
struct Search<F> {
    rewrite: Option<F>,
}

impl<F: FnOnce(Group, Option<&Ident>) -> TokenStream> VisitMut for Search<F> {
    fn visit_expr_async_mut(&mut self, future: &mut ExprAsync) {
        if arguments(&future.block.stmts).is_empty() {
            visit_expr_async_mut(self, future);
        } else if let Some(rewrite) = self.rewrite.take() {
            rewrite_block(future, rewrite);
        }
    }
}

fn rewrite_block(
    future: &mut ExprAsync,
    rewrite: impl FnOnce(Group, Option<&Ident>) -> TokenStream,
) {
    let statements = &future.block.stmts;
    let arguments = arguments(statements);
    let work = &statements[arguments.len()..];
    let receiver = arguments.iter().find_map(receiver);
    let mut braces = Group::new(Delimiter::Brace, quote!(#(#work)*));
    braces.set_span(future.block.brace_token.span.join());
    let work = rewrite(braces, receiver);
    let content = quote!(#(#arguments)* #work);
    future.block.stmts = vec![Stmt::Expr(Expr::Verbatim(content), None)];
}

/// What async-trait put in front of the work. In a block by hand, `let order = order;` is work: it drops the argument
/// under the lock.
fn arguments(statements: &[Stmt]) -> &[Stmt] {
    let end = statements.iter().take_while(|statement| is_argument(statement)).count();
    let arguments = &statements[..end];
    if arguments.iter().any(is_mark) { arguments } else { &[] }
}

/// The async block that the statements end in.
fn async_block(statements: &mut [Stmt]) -> Option<&mut ExprAsync> {
    let Stmt::Expr(last, None) = statements.last_mut()? else { return None };
    match last {
        Expr::Async(future) => Some(future),
        Expr::Call(call) if is_box_pin(&call.func) && call.args.len() == 1 => {
            match call.args.first_mut()? {
                Expr::Async(future) => Some(future),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(ExprPath { path, .. }) = function else { return false };
    let mut names = path.segments.iter().rev().map(|segment| &segment.ident);
    names.next().is_some_and(|name| name == "pin") && names.next().is_some_and(|name| name == "Box")
}

/// Whether async-trait may have put this statement in front of the work, to bind an argument or to tell
/// rustc the return type.
fn is_argument(statement: &Stmt) -> bool {
    if is_mark(statement) {
        return true;
    }
    let Stmt::Local(local) = statement else { return false };
    value_of(local).is_some_and(|name| {
        is_positional(name) || matches!(&local.pat, Pat::Ident(same) if same.ident == *name)
    })
}

/// Whether a statement is one that async-trait generates before the work, and that is never written by
/// hand.
fn is_mark(statement: &Stmt) -> bool {
    match statement {
        Stmt::Local(local) if value_of(local).is_some_and(is_positional) => true,
        Stmt::Expr(Expr::If(early), _) => {
            matches!(&*early.cond, Expr::Let(condition) if binds(&condition.pat, "__ret"))
        }
        other => receiver(other).is_some(),
    }
}

fn binds(pattern: &Pat, name: &str) -> bool {
    match pattern {
        Pat::TupleStruct(some) => {
            matches!(some.elems.first(), Some(Pat::Ident(bound)) if bound.ident == name)
        }
        _ => false,
    }
}

/// In `let __self = self;`, the new name.
fn receiver(statement: &Stmt) -> Option<&Ident> {
    let Stmt::Local(local) = statement else { return None };
    let Pat::Ident(pattern) = &local.pat else { return None };
    (pattern.ident == "__self" && value_of(local)? == "self").then_some(&pattern.ident)
}

/// The one variable that is moved: `let x = y;` or `let x = { let y = y; y };`.
fn value_of(local: &Local) -> Option<&Ident> {
    fn variable(value: &Expr) -> Option<&Ident> {
        match value {
            Expr::Path(ExprPath { qself: None, path, .. }) => path.get_ident(),
            Expr::Block(ExprBlock { block, .. }) => match block.stmts.as_slice() {
                // Anything else in it is the user's work.
                [Stmt::Local(inner), Stmt::Expr(last, None)] if value_of(inner).is_some() => {
                    variable(last)
                }
                _ => None,
            },
            _ => None,
        }
    }
    variable(&local.init.as_ref()?.expr)
}

fn is_positional(name: &Ident) -> bool {
    let name = name.to_string();
    name.strip_prefix("__arg").is_some_and(|digits| digits.parse::<usize>().is_ok())
}

/// The tokens with another name for `self`. In a path, `self::`, it is the module.
pub(crate) fn rename_self(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut renamed = TokenStream::new();
    while let Some(token) = tokens.next() {
        let starts_path = matches!(
            tokens.peek(),
            Some(TokenTree::Punct(colon)) if colon.as_char() == ':' && colon.spacing() == Spacing::Joint
        );
        renamed.extend([match token {
            TokenTree::Ident(name) if name == "self" && !starts_path => {
                // The place is the user's, for messages; the scope is the one that binds it.
                let span = name.span().resolved_at(receiver.span());
                Ident::new(&receiver.to_string(), span).into()
            }
            TokenTree::Group(group) => {
                let content = rename_self(group.stream(), receiver);
                crate::function::with_content(&group, content).into()
            }
            other => other,
        }]);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(source: &str) -> Group {
        match format!("{{ {source} }}").parse::<TokenStream>().unwrap().into_iter().next() {
            Some(TokenTree::Group(group)) => group,
            _ => panic!("not a block"),
        }
    }

    /// The body after a rewrite that marks what it was given.
    fn rewritten(source: &str) -> String {
        let future = ReturnedFuture::recognise(&body(source)).unwrap();
        future
            .with_work(|work, receiver| {
                let receiver = receiver.map(ToTokens::to_token_stream).into_iter();
                quote!(locked!(#(#receiver)* #work))
            })
            .to_string()
            .split_whitespace()
            .collect()
    }

    fn tokens(source: &str) -> String {
        source.split_whitespace().collect()
    }

    #[test]
    fn what_binds_the_arguments_stays_in_front_of_the_lock() {
        let arguments = "
            if let ::core::option::Option::Some(__ret) = ::core::option::Option::None::<R> {
                #[allow(unreachable_code)] return __ret;
            }
            let __self = self;
            let mut n = n;
            let Order { id } = { let __arg2 = __arg2; __arg2 };
            let __arg3 = __arg3;";
        let work = "let __ret: R = { work(id) }; #[allow(unreachable_code)] __ret";
        assert_eq!(
            rewritten(&format!("Box::pin(async move {{ {arguments} {work} }})")),
            tokens(&format!("Box::pin(async move {{ {arguments} locked!(__self {{ {work} }}) }})"))
        );
    }

    #[test]
    fn a_block_that_instrument_has_wrapped_is_found() {
        let instrumented = |work: &str| {
            format!(
                "Box::pin(async move {{
                    let span = span();
                    let future = async move {{ match async move {{ let __self = self; {work} }}.await {{ x => x }} }};
                    instrument(future, span).await
                }})"
            )
        };
        assert_eq!(
            rewritten(&instrumented("work().await")),
            tokens(&instrumented("locked!(__self { work().await })"))
        );
    }

    #[test]
    fn a_block_by_hand_is_all_work() {
        for source in [
            "Box::pin(async move {{ WORK }})",
            "::std::boxed::Box::pin(async move {{ WORK }})",
            "async move {{ WORK }}",
        ] {
            let source = source.replace("{{", "{").replace("}}", "}");
            for work in [
                "let order = order; let ttl = ttl; save(order).await",
                "let order = { let order = order; order }; save(order).await",
                "let id = order.id; spawn(async move { let id = id; pay(id).await })",
                "let order = { let order = load(id).await?; order }; save(order).await",
            ] {
                assert_eq!(
                    rewritten(&source.replace("WORK", work)),
                    tokens(&source.replace("WORK", &format!("locked!({{ {work} }})")))
                );
            }
        }
    }

    #[test]
    fn a_mark_may_come_after_other_arguments() {
        let block = "async move { let n = n; let Order { id } = { let __arg1 = __arg1; __arg1 };";
        for (before, after) in [("", ""), ("in_span(", ").await")] {
            assert_eq!(
                rewritten(&format!("async move {{ {before} {block} work(id) }} {after} }}")),
                tokens(&format!(
                    "async move {{ {before} {block} locked!({{ work(id) }}) }} {after} }}"
                ))
            );
        }
    }

    #[test]
    fn a_return_before_the_block_is_found_and_none_in_it() {
        for (start, is_early) in [
            ("if retry { return Box::pin(async {}); }", true),
            ("let id = match id { Some(id) => id, None => return none() };", true),
            ("let Some(id) = id else { return none() };", true),
            ("fallback!(return none());", true),
            ("let key = || { return 7; };", false),
            ("let first = async { return 7; };", false),
            ("fn key() -> u64 { return 7; }", false),
            ("", false),
        ] {
            let source = format!("{start} Box::pin(async move {{ return work(id?); }})");
            let future = ReturnedFuture::recognise(&body(&source)).unwrap();
            assert_eq!(future.early_return().is_some(), is_early, "{start}");
        }
    }

    #[test]
    fn another_body_is_not_taken_for_one() {
        for source in [
            "",
            "run()",
            "Box::pin(run())",
            "Arc::pin(async {})",
            "Box::pin(async {});",
            "let x = ;",
        ] {
            assert!(ReturnedFuture::recognise(&body(source)).is_none(), "{source}");
        }
    }

    #[test]
    fn self_is_renamed_wherever_it_stands() {
        let receiver = Ident::new("__self", proc_macro2::Span::call_site());
        let renamed = |tokens| rename_self(tokens, &receiver).to_string();
        assert_eq!(
            renamed(quote!(f(self.a, { Self::b(&self) }, myself, S { a: self }))),
            quote!(f(__self.a, { Self::b(&__self) }, myself, S { a: __self })).to_string()
        );
        assert_eq!(
            renamed(quote!(self::f(self::E::new(self)))),
            quote!(self::f(self::E::new(__self))).to_string()
        );
    }
}

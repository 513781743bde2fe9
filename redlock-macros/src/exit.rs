//! What leaves a function: `return` and `?`.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::{
    ExprReturn, ExprTry, Item, Macro,
    spanned::Spanned,
    visit::{Visit, visit_expr_return, visit_expr_try, visit_macro},
};

/// Where the visited code leaves its function, if it does. Closures, async blocks and items in it are left by
/// what stands in them, and the function is not.
#[derive(Debug, Default)]
pub(crate) struct Exit {
    pub(crate) by_return: Option<Span>,
    pub(crate) by_question_mark: Option<Span>,
}

impl<'a> Visit<'a> for Exit {
    fn visit_expr_try(&mut self, tried: &'a ExprTry) {
        self.by_question_mark = Some(tried.question_token.span());
        visit_expr_try(self, tried);
    }

    fn visit_expr_return(&mut self, returned: &'a ExprReturn) {
        self.by_return = Some(returned.return_token.span());
        visit_expr_return(self, returned);
    }

    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
    fn visit_expr_async(&mut self, _: &'a syn::ExprAsync) {}
    fn visit_item(&mut self, _: &'a Item) {}

    fn visit_macro(&mut self, call: &'a Macro) {
        self.look_in(call.tokens.clone());
        visit_macro(self, call);
    }
}

impl Exit {
    fn look_in(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.look_in(group.stream()),
                TokenTree::Ident(word) if word == "return" => self.by_return = Some(word.span()),
                TokenTree::Punct(mark) if mark.as_char() == '?' => {
                    self.by_question_mark = Some(mark.span());
                }
                _ => {}
            }
        }
    }
}

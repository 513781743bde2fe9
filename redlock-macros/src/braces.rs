//! Expressions that look like a template and are none.

use proc_macro2::{TokenStream, TokenTree};
use syn::{BinOp, Block, Expr, ExprLit, ExprPath, Lit, LitStr, Macro, Stmt};

/// Conversions of a text into another type that keep its content.
const CONVERSIONS: [&str; 5] = ["from", "from_str", "Borrowed", "Owned", "to_owned"];

/// Methods whose result is the text that they are called on.
const COPIES: [&str; 6] = ["to_owned", "to_string", "into", "as_str", "as_ref", "clone"];

/// The literal with a brace in it that the expression gives as it is, or as part of what it gives.
///
/// A function or a method may do anything with a text, as a pattern does, and the value of a name is not known
/// here.
pub(crate) fn in_text_of(value: &Expr) -> Option<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => with_brace(text.clone()),
        Expr::Group(group) => in_text_of(&group.expr),
        Expr::Paren(paren) => in_text_of(&paren.expr),
        Expr::Reference(reference) => in_text_of(&reference.expr),
        Expr::Unary(unary) => in_text_of(&unary.expr),
        Expr::Cast(cast) => in_text_of(&cast.expr),
        Expr::Field(field) => in_text_of(&field.base),
        Expr::Index(index) => in_text_of(&index.expr),
        Expr::Try(tried) => in_text_of(&tried.expr),
        Expr::Await(awaited) => in_text_of(&awaited.base),
        Expr::MethodCall(call) if COPIES.iter().any(|copy| call.method == copy) => {
            in_text_of(&call.receiver)
        }
        Expr::Call(call) => in_text_of(&call.func).or_else(|| match &*call.func {
            Expr::Path(function) if converts(function) => call.args.first().and_then(in_text_of),
            _ => None,
        }),
        Expr::Binary(sum) if matches!(sum.op, BinOp::Add(_)) => {
            in_text_of(&sum.left).or_else(|| in_text_of(&sum.right))
        }
        Expr::Block(block) => in_end_of(&block.block),
        Expr::Unsafe(block) => in_end_of(&block.block),
        Expr::If(either) => in_end_of(&either.then_branch)
            .or_else(|| either.else_branch.as_ref().and_then(|(_, other)| in_text_of(other))),
        Expr::Match(arms) => arms.arms.iter().find_map(|arm| in_text_of(&arm.body)),
        Expr::Macro(call) if call.mac.path.is_ident("concat") => in_concat(&call.mac),
        _ => None,
    }
}

fn converts(function: &ExprPath) -> bool {
    let name = function.path.segments.last();
    name.is_some_and(|name| CONVERSIONS.iter().any(|known| name.ident == known))
}

fn in_end_of(block: &Block) -> Option<LitStr> {
    match block.stmts.last()? {
        Stmt::Expr(value, None) => in_text_of(value),
        Stmt::Macro(last) if last.semi_token.is_none() && last.mac.path.is_ident("concat") => {
            in_concat(&last.mac)
        }
        _ => None,
    }
}

fn in_concat(concat: &Macro) -> Option<LitStr> {
    fn find(tokens: TokenStream) -> Option<LitStr> {
        tokens.into_iter().find_map(|token| match token {
            TokenTree::Group(group) => find(group.stream()),
            TokenTree::Literal(text) => {
                syn::parse2(TokenTree::from(text).into()).ok().and_then(with_brace)
            }
            _ => None,
        })
    }
    find(concat.tokens.clone())
}

fn with_brace(text: LitStr) -> Option<LitStr> {
    text.value().contains(['{', '}']).then_some(text)
}

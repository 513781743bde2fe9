//! The type that the function returns, as far as its signature shows it.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    AssocType, GenericArgument, Ident, PathArguments, PathSegment, ReturnType, Signature, Token,
    Type, TypeInfer,
    spanned::Spanned,
    visit::{Visit, visit_path_segment},
    visit_mut::{VisitMut, visit_type_mut},
};

/// Names of futures whose last argument is their output.
const KNOWN: [&str; 2] = ["BoxFuture", "LocalBoxFuture"];

/// The type of the value of an awaited call.
#[derive(Debug)]
pub(crate) struct Output {
    /// As it may be written inside the body.
    pub(crate) ty: TokenStream,
    pub(crate) is_result: bool,
    /// A name that the program gave it, which may be an alias.
    pub(crate) is_named: bool,
    /// The last argument of a name for a future. The future may give something else, such as a `Result` of it.
    pub(crate) is_guessed: bool,
    /// Where to show what it lacks.
    pub(crate) place: Span,
}

impl Output {
    /// Of an `async fn`.
    pub(crate) fn of_async(signature: &Signature) -> Self {
        match &signature.output {
            ReturnType::Default => {
                let place = signature.ident.span();
                let ty = quote!(());
                Self { ty, is_result: false, is_named: false, is_guessed: false, place }
            }
            ReturnType::Type(_, ty) => Self::of_type(ty, signature),
        }
    }

    /// Of a function that returns a future: the type that `Future<Output = _>` names, or, in
    /// `BoxFuture<'_, _>` and other names for one, the last that it is made of.
    pub(crate) fn of_future(signature: &Signature) -> Option<Self> {
        struct Find<'a>(Option<&'a Type>);
        impl<'a> Visit<'a> for Find<'a> {
            fn visit_assoc_type(&mut self, binding: &'a AssocType) {
                if binding.ident == "Output" {
                    self.0 = self.0.or(Some(&binding.ty));
                }
            }
        }
        let ReturnType::Type(_, returned) = &signature.output else { return None };
        let mut find = Find(None);
        find.visit_type(returned);
        if let Some(ty) = find.0 {
            return Some(Self::of_type(ty, signature));
        }
        let last = Self::of_type(last_argument(returned)?, signature);
        let is_known = last_segment(returned).is_some_and(|name| KNOWN.iter().any(|it| name == it));
        Some(Self { is_guessed: !is_known && !last.is_result, ..last })
    }

    /// Whether the value may itself be something to await.
    pub(crate) fn may_be_a_future(&self) -> bool {
        !self.is_result && self.ty.to_string() != "()"
    }

    fn of_type(ty: &Type, signature: &Signature) -> Self {
        let mut written = ty.clone();
        Unwritable.visit_type_mut(&mut written);
        // async-trait writes the `()` that the user omitted.
        let unit = matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty());
        let place = if unit { signature.ident.span() } else { ty.span() };
        let last = last_segment(ty).map(ToString::to_string);
        Self {
            ty: written.into_token_stream(),
            is_result: last.as_ref().is_some_and(|name| name == "Result"),
            // Lower case is for the primitive types.
            is_named: last.is_some_and(|name| name.starts_with(char::is_uppercase)),
            is_guessed: false,
            place,
        }
    }
}

/// Whether this is the type of a future, by its name.
pub(crate) fn is_future(signature: &Signature) -> bool {
    struct Find(bool);
    impl Visit<'_> for Find {
        fn visit_path_segment(&mut self, segment: &PathSegment) {
            self.0 |= segment.ident.to_string().ends_with("Future");
            visit_path_segment(self, segment);
        }
    }
    let mut find = Find(false);
    find.visit_return_type(&signature.output);
    find.0
}

/// The `T` of `BoxFuture<'a, T>`.
fn last_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether a type is a `Result`, by its name. An alias such as `io::Result<T>` counts. If the name
/// misleads, rustc reports an error later.
fn last_segment(ty: &Type) -> Option<&Ident> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        Type::Paren(inner) => last_segment(&inner.elem),
        Type::Group(inner) => last_segment(&inner.elem),
        _ => None,
    }
}

/// `impl Trait` and `!` are types of return positions only; inside the body rustc infers them.
struct Unwritable;

impl VisitMut for Unwritable {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if matches!(ty, Type::ImplTrait(_) | Type::Never(_)) {
            let underscore_token = Token![_](Span::mixed_site());
            *ty = Type::Infer(TypeInfer { attrs: Vec::new(), underscore_token });
        } else {
            visit_type_mut(self, ty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn signature(output: ReturnType) -> Signature {
        parse_quote!(fn f() #output)
    }

    fn output(returns: ReturnType) -> (String, bool) {
        let output = Output::of_async(&signature(returns));
        (output.ty.to_string(), output.is_result)
    }

    #[test]
    fn a_result_is_told_by_its_last_segment() {
        for returns in [
            parse_quote!(-> Result<u8, E>),
            parse_quote!(-> Result<u8>),
            parse_quote!(-> io::Result<()>),
            parse_quote!(-> ::core::result::Result<u8, E>),
            parse_quote!(-> (Result<u8, E>)),
            parse_quote!(-> <T as Service>::Result),
        ] {
            assert!(output(returns).1);
        }
        for returns in [
            parse_quote!(),
            parse_quote!(-> u8),
            parse_quote!(-> Option<Result<u8, E>>),
            parse_quote!(-> LockResult<u8>),
            parse_quote!(-> (Result<u8, E>, u8)),
            parse_quote!(-> impl Into<Result<u8, E>>),
        ] {
            assert!(!output(returns).1);
        }
    }

    #[test]
    fn what_cannot_be_written_in_a_body_is_left_to_inference() {
        assert_eq!(output(parse_quote!(-> Result<impl Fn(u8) -> u8, E>)).0, "Result < _ , E >");
        assert_eq!(output(parse_quote!(-> impl Sized)).0, "_");
        assert_eq!(output(parse_quote!(-> !)).0, "_");
        assert_eq!(output(parse_quote!()).0, "()");
    }

    #[test]
    fn a_future_says_what_it_gives() {
        let boxed: ReturnType = parse_quote!(
            -> ::core::pin::Pin<Box<dyn Future<Output = Result<u8, E>> + Send + 'async_trait>>
        );
        let found = Output::of_future(&signature(boxed)).unwrap();
        assert_eq!((found.ty.to_string().as_str(), found.is_result), ("Result < u8 , E >", true));
        let opaque: ReturnType = parse_quote!(-> impl Future<Output = u8> + Send);
        assert_eq!(Output::of_future(&signature(opaque)).unwrap().ty.to_string(), "u8");
        let alias: ReturnType = parse_quote!(-> futures::BoxFuture<'static, io::Result<u8>>);
        let found = Output::of_future(&signature(alias)).unwrap();
        assert_eq!((found.ty.to_string().as_str(), found.is_result), ("io :: Result < u8 >", true));
        assert!(!found.is_guessed);
        for (returns, is_guessed) in [
            (parse_quote!(-> BoxFuture<'static, u8>), false),
            (parse_quote!(-> Boxed<Result<u8, E>>), false),
            (parse_quote!(-> ResultFuture<u8>), true),
        ] {
            assert_eq!(Output::of_future(&signature(returns)).unwrap().is_guessed, is_guessed);
        }
        assert!(Output::of_future(&signature(parse_quote!(-> PayFuture))).is_none());
        assert!(Output::of_future(&signature(parse_quote!(-> u8))).is_none());
        assert!(Output::of_future(&signature(parse_quote!())).is_none());
    }
}
